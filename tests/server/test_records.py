"""Stored records: backwards, by key, in part and whole, and shown as the app declared them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.gate.app import EVENTS, gated
from tests.server.conftest import Client
from tests.server.tab_client import tab
from tests.server.test_gates import got
from tests.waiting import wait_for

from tidegate import App, Json, MsgPack, Topic
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.errors import SerdeError
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.serde.plain import PLAIN
from tidegate.server import record_pages
from tidegate.text.declared_format import DeclaredFormat, shown_value
from tidegate.types import TopicPartition

CLOCK = SystemClock()
ZERO = TopicPartition("events", 0)


@pytest.fixture(autouse=True)
def topics(log: SqliteLog) -> None:
    prepare(gated().build(), log, CLOCK, partitions=2)


def values(page: Any) -> list[Any]:
    return [record["value"] for record in page["records"]]


def backwards(client: Client, **query: Any) -> list[list[Any]]:
    """All pages from the newest to the oldest."""
    pages, before = [], None
    while True:
        page = got(
            client, "/topics/events/records", **query, **({} if before is None else {"before": before})
        )
        pages.append(values(page))
        before = page["previous"]
        if before is None:
            return pages


def test_pages_go_backwards_to_the_first_record(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", *range(10))
    pages = backwards(client, limit=4)
    assert pages[0] == [6, 7, 8, 9]
    assert [value for page in reversed(pages) for value in page] == list(range(10))


def test_several_partitions_backwards_lose_and_repeat_nothing(client: Client, connection: Connection) -> None:
    for number in range(60):
        connection.send(EVENTS, ("ada", "bob", "cyd")[number % 3], number, timestamp=number)
    for limit in (1, 7, 100):
        pages = backwards(client, limit=limit)
        assert sorted(value for page in pages for value in page) == list(range(60))
        assert all(page == sorted(page) for page in pages)


def test_a_page_before_a_page_and_back_again(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", *range(10))
    newest = got(client, "/topics/events/records", limit=4)
    older = got(client, "/topics/events/records", limit=4, before=newest["previous"])
    assert values(older) == [2, 3, 4, 5]
    again = got(client, "/topics/events/records", limit=4, at=older["next"])
    assert values(again) == [6, 7, 8, 9]
    assert got(client, "/topics/events/records", since=0)["previous"] is None


def test_compacted_offsets_do_not_end_the_way_back(client: Client, log: SqliteLog) -> None:
    """Offsets without records, as compaction and transactions leave them."""
    log.append(ZERO, to_batch([Row(b"k", PLAIN[int].encode(number), 1) for number in range(30)]))
    log.purge(ZERO, 5)  # type: ignore[arg-type]
    assert [value for page in reversed(backwards(client, limit=3)) for value in page] == list(range(5, 30))


def test_the_records_of_one_key(
    client: Client, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_pages, "MOST_READ", 40)  # a page looks at few records
    for number in range(100):
        connection.send(EVENTS, "rare" if number in (3, 50, 98) else "ada", number)
    pages = backwards(client, key="rare")
    assert [value for page in reversed(pages) for value in page] == [3, 50, 98]
    assert len(pages) > 2, "most pages hold none of its records"
    found: list[int] = []
    at: str | None = None
    while len(found) < 3:
        query: dict[str, Any] = {"since": 0} if at is None else {"at": at}
        page = got(client, "/topics/events/records", key="rare", limit=2, **query)
        assert page["scanned"] <= 40
        found += values(page)
        at = page["next"]
    assert found == [3, 50, 98]
    assert values(got(client, "/topics/events/records", key="rare", at=at)) == []
    assert values(got(client, "/topics/events/records", key="none")) == []


def test_a_large_value_is_cut_and_can_be_read_whole(client: Client, log: SqliteLog) -> None:
    whole = "wörd" * 100_000
    log.append(ZERO, to_batch([Row(b"k", whole.encode(), 1), Row(b"k", b"short", 1)]))
    large, short = got(client, "/topics/events/records", preview=2000)["records"]
    assert (short["value"], "cut" in short) == ("short", False)
    assert large["value"] is None
    assert whole.startswith(large["cut"]["preview"])
    assert large["cut"]["bytes"] == 500_000
    assert got(client, large["cut"]["path"])["record"]["value"] == whole
    raw = got(client, large["cut"]["path"], type="bytes")["record"]["value"]
    assert base64.b64decode(raw["base64"]) == whole.encode()


@pytest.mark.parametrize("place", ["0/5", "0/99", "1/0"])
def test_a_record_that_is_not_there(client: Client, log: SqliteLog, place: str) -> None:
    log.append(ZERO, to_batch([Row(b"k", b"v", 1)] * 5))
    answer = got(client, f"/topics/events/records/{place}", code=404)
    assert answer["error"]["code"] == "no-such-record"


def test_a_record_that_was_deleted_is_not_there(client: Client, log: SqliteLog) -> None:
    log.append(ZERO, to_batch([Row(b"k", b"v", 1)] * 5))
    log.purge(ZERO, 3)  # type: ignore[arg-type]
    assert got(client, "/topics/events/records/0/1", code=404)["error"]["code"] == "no-such-record"
    assert got(client, "/topics/events/records/7/0", code=404)["error"]["code"] == "no-such-partition"


def test_positions_exclude_each_other_and_belong_to_the_topic(client: Client) -> None:
    for query in ({"at": "events:0=0", "since": 0}, {"at": "events:0=0", "before": "events:0=0"}):
        assert got(client, "/topics/events/records", 400, **query)["error"]["code"] == "bad-request"
    answer = got(client, "/topics/events/records", 400, before="passed:0=1")
    assert answer["error"]["code"] == "bad-position"


def test_whatever_a_record_holds_is_shown_exactly(client: Client, log: SqliteLog) -> None:
    """The largest numbers, NUL, bytes that are no text, a tombstone, no key, a key like a path."""
    rows = [
        Row(b"n", PLAIN[int].encode(2**63 - 1), 1),
        Row(b"n", PLAIN[int].encode(-(2**63)), 2),
        Row(b"../%2F", PLAIN[int].encode(1), 3),
        Row(None, None, 4),
        Row(b"\xff\x00", b"not eight", 5),
        Row(b"a\0b", b"\xff", 6),
    ]
    log.append(ZERO, to_batch(rows))
    text = client.get("/topics/events/records").text
    assert f'"value":{2**63 - 1},' in text
    found = json.loads(text)["records"]
    assert values({"records": found}) == [2**63 - 1, -(2**63), 1, None, "not eight", {"base64": "/w=="}]
    assert [one["key"] for one in found] == ["n", "n", "../%2F", None, {"base64": "/wA="}, "a\0b"]
    assert found[4]["key_path"] == "%FF%00"
    assert [one.get("format") for one in found] == ["int"] * 3 + [None] * 3


class Point(msgspec.Struct):
    x: int
    y: float


def test_values_are_shown_by_the_formats_of_the_manifest(client: Client, log: SqliteLog) -> None:
    app = App("formats")
    packed = Topic("packed", MsgPack[Point](), key=int)
    texts = Topic("texts", Json[Point](), key=UUID)
    app.stream(packed).to(Topic("again", MsgPack[Point](), key=int))
    app.stream(texts).to(Topic("also", Json[Point](), key=UUID))
    prepare(app.build(), log, CLOCK, partitions=1)
    data = msgspec.msgpack.encode(Point(2**60 + 1, 0.5))
    log.append(
        TopicPartition("packed", 0), to_batch([Row(PLAIN[int].encode(7), data, 1), Row(None, b"\xc1", 2)])
    )
    name = UUID(int=5)
    log.append(TopicPartition("texts", 0), to_batch([Row(name.bytes, b'{"x": 1, "y": 2}', 1)]))
    good, bad = got(client, "/topics/packed/records")["records"]
    assert (good["value"], good["format"]) == ({"x": 2**60 + 1, "y": 0.5}, "msgpack")
    assert (good["key"], good["key_path"]) == (7, "%80%00%00%00%00%00%00%07")
    assert (bad["value"], "format" in bad) == ({"base64": "wQ=="}, False)
    [text] = got(client, "/topics/texts/records")["records"]
    assert (text["key"], text["value"]) == (str(name), {"x": 1, "y": 2})
    [named] = got(client, "/topics/texts/records", type="str")["records"]
    assert named["value"] == '{"x": 1, "y": 2}'


def test_framed_and_other_plain_formats() -> None:
    framed = b"\x00\x00\x00\x00\x07"
    assert bytes(DeclaredFormat("json-schema").decode(framed + b'{"a":1}')) == b'{"a":1}'
    assert shown_value(b"{}", DeclaredFormat("json-schema")) == (shown_value(b"{}", None)[0], "")
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    shown = DeclaredFormat("datetime").decode(PLAIN[datetime].encode(moment))
    assert bytes(shown) == b'"2026-01-02T00:00:00Z"'
    for name in ("", "bytes", "of-the-user"):
        with pytest.raises(SerdeError):
            DeclaredFormat(name).decode(b"x")
    deep = b"\x91" * 100_000 + b"\xc0"
    assert shown_value(deep, DeclaredFormat("msgpack"))[1] == ""


def test_avro_is_read_with_the_schema_of_the_app() -> None:
    from tidegate.serde import avro_bytes

    schema = '{"type":"record","name":"P","fields":[{"name":"x","type":"long"},{"name":"s","type":"string"}]}'
    data = avro_bytes.write(avro_bytes.parsed(schema), {"x": 2**62, "s": "é"}, b"\x00\x00\x00\x00\x09")
    value, name = shown_value(data, DeclaredFormat("avro", schema))
    assert (json.loads(bytes(value)), name) == ({"x": 2**62, "s": "é"}, "avro")
    assert shown_value(data[:-1], DeclaredFormat("avro", schema))[1] == ""
    assert shown_value(b"x" + data, DeclaredFormat("avro", schema))[1] == ""


def test_topics_have_roles_sizes_and_rates(client: Client, log: SqliteLog, connection: Connection) -> None:
    log.create(TopicSpec("foreign", 3, {}))
    connection.send(EVENTS, "ada", 1, 2)
    found = {one["topic"]: one for one in got(client, "/topics", details="true")["topics"]}
    assert found["events"] == {
        "topic": "events",
        "roles": [{"app": "gated", "role": "source", "name": ""}],
        "partitions": 2,
        "records": 2,
        "rate": None,
    }
    assert found["foreign"]["roles"] == []
    assert found["gated-counted-changelog"]["roles"][0]["role"] == "changelog"
    assert sorted(found) == got(client, "/topics")["topics"]
    with tab(client) as one:
        one.frame()
        wait_for(lambda: got(client, "/topics", details="true")["topics"][0]["rate"] is not None)
