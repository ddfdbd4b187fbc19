"""Records as server-sent events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.gate.app import EVENTS, gated
from tests.gate.working import Working
from tests.server.conftest import Client, Serve
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import live
from tidegate.server.record_feed import RecordFeed, Selection
from tidegate.types import TopicPartition

START = "/live?topic=events&from=start&type=int"


@pytest.fixture(autouse=True)
def topics(log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)


def events(answer: Any) -> Iterator[dict[str, str]]:
    """The events of a stream, field by field."""
    found: dict[str, str] = {}
    for line in answer.iter_lines():
        if not line:
            if found.keys() - {"retry"}:
                yield found
            found = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            found[name] = value


def taken(client: Client, path: str, count: int, last: str | None = None) -> list[dict[str, str]]:
    """Events until they hold so many records, or report a failure."""
    headers = {} if last is None else {"Last-Event-ID": last}
    found: list[dict[str, str]] = []
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        for event in events(answer):
            found.append(event)
            if event["event"] == "failure" or len(records(found)) >= count:
                break
    return found


def records(found: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [record for one in found if one["event"] == "records" for record in json.loads(one["data"])]


def values(found: list[dict[str, str]]) -> list[int]:
    return [one["value"] for one in records(found)]


def test_history_comes_first_and_then_new_records(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", 1, 2, 3)
    found: list[dict[str, str]] = []
    with client.stream("GET", START) as answer:
        for event in events(answer):
            found.append(event)
            if values(found) == [1, 2, 3]:
                connection.send(EVENTS, "ada", 4, 5)
            if len(values(found)) >= 5:
                break
    assert values(found) == [1, 2, 3, 4, 5]
    assert {one["event"] for one in found} == {"records"}
    assert records(found)[0]["key"] == "ada"


def test_a_stream_that_broke_off_goes_on_behind_its_last_event(serve: Serve, connection: Connection) -> None:
    """At another server, too; nothing is missed, nothing comes twice (I14)."""
    clients = [serve(), serve()]
    connection.send(EVENTS, "ada", *range(100))
    connection.send(EVENTS, "bob", *range(100, 200))
    seen: list[int] = []
    last: str | None = None
    turn = 0
    for turn in itertools.count():
        found = taken(clients[turn % 2], START, min((1, 7, 50)[turn % 3], 200 - len(seen)), last)
        seen += values(found)
        last = found[-1]["id"]
        if len(seen) >= 200:
            break
    assert turn >= 5, "an event of a stream with short ids holds few records"
    assert sorted(seen) == list(range(200))
    assert [one for one in seen if one < 100] == list(range(100))
    connection.send(EVENTS, "ada", 200)
    assert values(taken(clients[0], START, 1, last)) == [200]


def test_several_topics_in_one_stream(
    client: Client, connection: Connection, log: SqliteLog, tmp_path: Any
) -> None:
    """Input, output and status, as a dashboard wants them."""
    working = Working(log, tmp_path)
    connection.send(EVENTS, "ada", 1)
    wait_for(
        lambda: (
            log.ends([TopicPartition("passed", 0)])[TopicPartition("passed", 0)]
            + log.ends([TopicPartition("passed", 1)])[TopicPartition("passed", 1)]
            >= 1
        )
    )
    client.post("/gates/door/keys/ada/pause?wait=applied")
    path = "/live?topic=events&topic=passed&topic=gated-door-status&topic=gated-door-audit&from=start"
    found = records(taken(client, path, 4))
    assert {one["topic"] for one in found} == {"events", "passed", "gated-door-status", "gated-door-audit"}
    gate = records(taken(client, "/gates/door/live?from=start", 3))
    assert {one["topic"] for one in gate} == {"gated-door-admitted", "gated-door-status", "gated-door-audit"}
    [status] = [one for one in gate if one["topic"] == "gated-door-status"]
    assert status["value"]["state"] == "PAUSED"
    working.close()


def test_what_records_hold_cannot_make_events(client: Client, log: SqliteLog) -> None:
    evil = b"x\r\n\r\nevent: evil\r\ndata: 1\r\n\r\n\xe2\x80\xa8"
    row = Row(evil, evil, 1, ((evil.decode(), evil),))
    log.append(TopicPartition("events", 0), to_batch([row]))
    log.append(TopicPartition("events", 0), to_batch([Row(b"k", b"end", 2)]))
    found = taken(client, "/live?topic=events&from=start", 2)
    assert {one["event"] for one in found} == {"records"}
    reported, end = records(found)
    assert end["value"] == "end"
    assert (reported["key"].encode(), reported["value"].encode(), reported["headers"][0][0].encode()) == (
        evil,
    ) * 3


def test_bytes_of_another_type_are_shown_as_base64(client: Client, log: SqliteLog) -> None:
    log.append(TopicPartition("events", 0), to_batch([Row(None, b"\xff", 1), Row(b"\xfe", None, 2)]))
    found = records(taken(client, START, 2))
    assert [(one["key"], one["value"]) for one in found] == [
        (None, {"base64": "/w=="}),
        ({"base64": "/g=="}, None),
    ]


def test_a_quiet_stream_sends_keep_alive_comments(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUIET_SECONDS", 0.2)  # how often a quiet stream writes
    with client.stream("GET", "/live?topic=events") as answer:
        lines = itertools.islice((line for line in answer.iter_lines() if line), 3)
        assert list(lines) == ["retry: 1000", ": still here", ": still here"]


def test_history_that_is_gone_ends_the_stream_with_an_error(
    client: Client, connection: Connection, log: SqliteLog
) -> None:
    connection.send(EVENTS, "ada", *range(10))
    first = taken(client, START, 1)
    for number in range(2):
        partition = TopicPartition("events", number)
        log.purge(partition, log.ends([partition])[partition])
    [reported] = taken(client, START, 5, first[0]["id"])
    assert (reported["event"], reported["retry"]) == ("failure", "600000")
    assert json.loads(reported["data"])["error"]["code"] == "offset-out-of-range"


def test_a_stream_of_one_key_has_only_its_records(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", *range(50))
    connection.send(EVENTS, "a b", 1)
    connection.send(EVENTS, "ada", 50)
    connection.send(EVENTS, "a b", 2)
    found = taken(client, f"{START}&key=a%20b", 2)
    assert values(found) == [1, 2]
    connection.send(EVENTS, "a b", 3)
    assert values(taken(client, f"{START}&key=a%20b", 1, found[-1]["id"])) == [3]
    assert {one["event"] for one in found} == {"records"}


def test_a_stream_with_a_limit_counts_what_it_skips(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", *range(2000))
    shown: list[int] = []
    skipped = 0
    with client.stream("GET", f"{START}&per_second=5") as answer:
        for event in events(answer):
            if event["event"] == "skipped":
                skipped += json.loads(event["data"])["events"]
            else:
                shown += values([event])
            if len(shown) + skipped >= 2000:
                break
    assert len(shown) + skipped == 2000
    assert shown == sorted(shown)
    assert 1 <= len(shown) <= 50
    assert shown[0] >= 1000, "the newest of those that were read"


def test_a_limited_stream_that_falls_behind_goes_on_near_the_end(log: SqliteLog) -> None:
    partition = TopicPartition("events", 0)
    for _ in range(4):  # more than one poll returns
        log.append(partition, to_batch([Row(b"k", bytes(300_000), 1)] * 20))
    feed = RecordFeed(log, {partition: 0}, {"events": Selection(None, 2)})
    feed.open()
    shown, skipped, polls, at = 0, 0, 0, 0
    while shown + skipped < 80:
        polled = feed.poll(0.2)
        shown, skipped, polls = shown + len(polled.rows), skipped + polled.skipped["events"], polls + 1
        at = polled.next.get(partition, at)
    assert at == 80
    assert polls <= 3
    feed.close()
    assert feed.poll(0.0).rows == [], "a closed feed returns nothing"


def test_there_are_only_so_many_streams(serve: Serve) -> None:
    client = serve(streams=3, streams_per_client=2)
    with client.stream("GET", "/live?topic=events") as one, client.stream("GET", "/live?topic=events") as two:
        assert (one.status_code, two.status_code) == (200, 200)
        third = client.get("/live?topic=events")
        assert (third.status_code, third.json()["error"]["code"]) == (429, "too-many-streams")
        assert "tidegate_server_streams 2" in client.get("/metrics").text
    wait_for(lambda: "tidegate_server_streams 0" in client.get("/metrics").text)
    for _ in range(10):
        taken_one = client.stream("GET", "/live?topic=events")
        with taken_one as answer:
            assert answer.status_code == 200
        wait_for(lambda: "tidegate_server_streams 0" in client.get("/metrics").text)


def test_a_server_that_ends_ends_its_streams(config: Any, log: SqliteLog) -> None:
    from tests.server.conftest import served

    with Client(timeout=30) as client:
        with served(config) as url:
            stream = client.stream("GET", f"{url}/live?topic=events")
            answer = stream.__enter__()
            lines = answer.iter_lines()
            assert next(lines) == "retry: 1000"
        assert [line for line in lines if line] == []
        stream.__exit__(None, None, None)
