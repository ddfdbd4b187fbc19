"""Dead letters by error and line, and sent back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
from tests.server.conftest import Client, Serve
from tests.server.test_gates import got

from tidegate import App, Topic
from tidegate.config.config import Config
from tidegate.log import names
from tidegate.log.reads import read_between
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.dead_letters import groups, redrive
from tidegate.runtime.driver.reset import planned_reset
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.server.tokens import Scope, add_token
from tidegate.testing import Driver
from tidegate.topology.belongings import of_topology
from tidegate.types import TopicPartition

LINES = Topic("lines", str)
NUMBERS = Topic("numbers", int)
LETTERS = TopicPartition("shop-dead-letters", 0)


def parsed(line: str) -> int:
    if line == "late":
        raise KeyError(line)
    return int(line)


def doubled(number: int) -> int:
    if number > 1000:
        raise ValueError("too large")
    return 2 * number


def shop() -> App:
    app = App("shop")
    numbers = app.stream(LINES, on_error="dead-letter").map(parsed)
    numbers.repartition("by").map(doubled).to(NUMBERS)
    return app


@pytest.fixture
def d(log: SqliteLog) -> Iterator[Driver]:
    with Driver(shop(), partitions=2, log=log) as made:
        made.send(LINES, "ada", "1", "two", "three", "late")
        made.run()
        yield made


def test_dead_letters_are_grouped_by_error_and_line(client: Client, d: Driver) -> None:
    assert len(d.dead_letters()) == 3
    found = got(client, "/apps/shop/dead-letters")
    assert (found["records"], found["at_least"], found["topic"]) == (3, False, "shop-dead-letters")
    first, second = found["groups"]
    assert (first["code"], first["count"], first["offsets"]) == ("user-code", 2, [0, 1])
    assert first["place"].partition(":")[0].endswith("test_dead_letters.py")
    assert "three" in first["message"]
    assert got(client, "/apps/shop/dead-letters", offsets=1)["groups"][0]["offsets"] == [1]
    assert first["sources"] == ["lines"]
    assert (second["count"], second["place"] != first["place"]) == (1, True)
    assert got(client, "/apps/none/dead-letters", code=404)["error"]["code"] == "never-started"


def test_only_the_newest_are_read(client: Client, d: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert d
    monkeypatch.setattr(groups, "MOST_READ", 2)
    found = got(client, "/apps/shop/dead-letters")
    assert (found["records"], found["at_least"]) == (2, True)


def redriven(client: Client, *offsets: int, again: bool | None = None, key: str = "") -> Any:
    answer = client.post(
        "/apps/shop/dead-letters/redrive",
        json={"offsets": list(offsets), "reason": "fixed", **({} if again is None else {"again": again})},
        headers={"Idempotency-Key": key} if key else {},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_dead_letter_goes_back_to_where_it_came_from(
    serve: Serve, d: Driver, log: SqliteLog, config: Config
) -> None:
    token = add_token(config.folder / "tokens.json", "olga", Scope.OPERATE)
    client = serve(token, tokens="tokens.json")
    letters = got(client, "/topics/shop-dead-letters/records")["records"]
    [done] = redriven(client, 1)["redriven"]
    assert (done["offset"], done["topic"]) == (1, "lines")
    path = f"/topics/lines/records/{done['partition']}/{done['to_offset']}"
    sent = got(client, path, internal_headers="true")["record"]
    assert (sent["key"], sent["value"]) == ("ada", "three")
    assert sent["timestamp"] == letters[1]["timestamp"]
    assert sent["headers"] == [
        ["tidegate.redrive.from", "shop-dead-letters/0/1"],
        ["tidegate.redrive.by", "olga"],
        ["tidegate.redrive.reason", "fixed"],
    ]
    d.run()
    assert len(d.dead_letters()) == 4, "it was processed again, and failed again"


def test_a_repeated_call_sends_once(client: Client, d: Driver, log: SqliteLog) -> None:
    assert d
    first = redriven(client, 0, key="k")
    assert redriven(client, 0, key="k") == first
    ends = log.ends([TopicPartition("lines", 0), TopicPartition("lines", 1)])
    assert sum(ends.values()) == 5


def sent_ends(log: SqliteLog) -> int:
    return sum(log.ends([TopicPartition("lines", 0), TopicPartition("lines", 1)]).values())


def test_what_was_sent_is_kept_and_not_sent_again_by_accident(
    serve: Serve, d: Driver, log: SqliteLog, config: Config
) -> None:
    assert d
    token = add_token(config.folder / "tokens.json", "olga", Scope.OPERATE)
    client = serve(token, tokens="tokens.json")
    [done] = redriven(client, 1)["redriven"]
    for server in (client, serve(token, tokens="tokens.json")):
        first, second = got(server, "/apps/shop/dead-letters")["groups"]
        [sent] = first["sent"]
        assert (sent["offset"], sent["by"], sent["reason"], sent["times"]) == (1, "olga", "fixed", 1)
        assert (sent["topic"], sent["partition"], sent["to_offset"]) == (
            "lines",
            done["partition"],
            done["to_offset"],
        )
        assert sent["at"] > 0
        assert second["sent"] == []
    both = redriven(client, 0, 1)
    assert [one["offset"] for one in both["redriven"]] == [0]
    [refused] = both["refused"]
    assert (refused["offset"], refused["code"]) == (1, "already-redriven")
    assert f"was sent back to lines/{done['partition']}/{done['to_offset']} by olga" in refused["message"]
    assert sent_ends(log) == 6
    [twice] = redriven(client, 1, again=True)["redriven"]
    assert twice["to_offset"] > done["to_offset"]
    sent = {one["offset"]: one for one in got(client, "/apps/shop/dead-letters")["groups"][0]["sent"]}
    assert {offset: one["times"] for offset, one in sent.items()} == {0: 1, 1: 2}


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_letter_that_may_have_been_sent_before_a_crash_counts_as_sent(
    client: Client, d: Driver, log: SqliteLog, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert d
    reached = f"redrive.{step}"

    def crash(point: str) -> None:
        if point == reached:
            raise RuntimeError(point)

    monkeypatch.setattr(redrive, "reach", crash)
    answer = client.post("/apps/shop/dead-letters/redrive", json={"offsets": [0]})
    assert answer.status_code == 500
    assert sent_ends(log) == (5 if step == 4 else 4)
    monkeypatch.undo()
    found = redriven(client, 0)
    if step == 2:
        assert [one["offset"] for one in found["redriven"]] == [0], "nothing was recorded, and nothing sent"
        return
    assert [one["code"] for one in found["refused"]] == ["already-redriven"]
    [sent] = got(client, "/apps/shop/dead-letters")["groups"][0]["sent"]
    assert (sent["offset"], sent["to_offset"]) == (0, None)


def test_of_two_servers_at_the_same_moment_one_sends_a_letter(
    serve: Serve, d: Driver, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has found that nobody sent it; before it records that it does, the other one sends it."""
    assert d
    answers: list[Any] = []

    def meanwhile(point: str) -> None:
        if point == "redrive.2" and not answers:
            answers.append(None)
            answers[0] = redriven(serve(), 0)

    monkeypatch.setattr(redrive, "reach", meanwhile)
    late = redriven(serve(), 0, 1)
    assert [one["offset"] for one in answers[0]["redriven"]] == [0]
    assert [one["offset"] for one in late["redriven"]] == [1]
    assert [(one["offset"], one["code"]) for one in late["refused"]] == [(0, "already-redriven")]
    assert sent_ends(log) == 6
    log.compact(names.redrives("shop"))
    sent = {one["offset"]: one for one in got(serve(), "/apps/shop/dead-letters")["groups"][0]["sent"]}
    assert sent[0]["to_offset"] == answers[0]["redriven"][0]["to_offset"]


def test_of_many_calls_at_once_one_sends_a_letter(d: Driver, log: SqliteLog) -> None:
    assert d
    manifest = find_manifest(log, "shop")
    assert manifest is not None
    ready = threading.Barrier(4)

    def call(number: int) -> list[int]:
        ready.wait()
        done, refused = redrive.redrive(log, manifest, [0, 1, 2], str(number), "", now=d.clock.now())
        assert {one.code for one in refused} <= {"already-redriven"}
        return [one.offset for one in done]

    with ThreadPoolExecutor(4) as pool:
        assert sorted(chain.from_iterable(pool.map(call, range(4)))) == [0, 1, 2]
    assert sent_ends(log) == 7


def test_what_was_sent_belongs_to_one_dead_letter_topic(client: Client, d: Driver, log: SqliteLog) -> None:
    """After a reset, offsets count from 0 again."""
    assert d
    redriven(client, 0)
    rows = [row for batch in read_between(log, LETTERS, 0, 1) for row in rows_of(batch)]
    log.delete(LETTERS.topic)
    log.create(TopicSpec(LETTERS.topic, 1, {}))
    log.append(LETTERS, to_batch([Row(row.key, row.value, row.timestamp, row.headers) for row in rows]))
    [group] = got(client, "/apps/shop/dead-letters")["groups"]
    assert (group["offsets"], group["sent"]) == ([0], [])
    assert [one["offset"] for one in redriven(client, 0)["redriven"]] == [0]
    assert names.redrives("shop") in planned_reset(log, of_topology(shop().build())).topics


def test_what_cannot_be_sent_back_is_refused_one_by_one(client: Client, d: Driver, log: SqliteLog) -> None:
    d.send(LINES, "ada", "5000")
    d.run()
    foreign = [(b"tidegate.error.position", b"elsewhere/0/1")]
    rows = [Row(b"k", b"v", 1), Row(b"k", b"v", 1, [(name.decode(), value) for name, value in foreign])]
    log.append(LETTERS, to_batch(rows))
    log.append(LETTERS, to_batch([Row(b"k", b"v", 1, [("tidegate.error.position", b"lines/7/1")])]))
    found = redriven(client, 3, 4, 5, 6, 0, 99)
    assert [one["offset"] for one in found["redriven"]] == [0]
    assert [(one["offset"], one["code"]) for one in found["refused"]] == [
        (3, "not-redrivable"),
        (4, "not-redrivable"),
        (5, "not-redrivable"),
        (6, "not-redrivable"),
        (99, "no-such-record"),
    ]
    assert "internal topic" in found["refused"][0]["message"], "it failed behind a repartition"


@pytest.mark.parametrize("body", [{}, {"offsets": []}, {"offsets": [-1]}, {"offsets": list(range(1001))}])
def test_bodies_that_name_no_dead_letters(client: Client, d: Driver, body: dict[str, Any]) -> None:
    assert d
    answer = client.post("/apps/shop/dead-letters/redrive", json=body)
    assert answer.json()["error"]["code"] == "bad-body"
