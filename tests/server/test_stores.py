"""Stores over HTTP, from replicas of their changelogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.server.conftest import Client, Serve
from tests.server.test_gates import got
from tests.waiting import wait_for

from tidegate import App, Context, Record, Topic, stores
from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.live_replica import LiveReplica
from tidegate.types import TopicPartition

VISITS = Topic("visits", int)


def visits() -> App:
    """Each visit to a window store, a timestamped one, and one without a changelog."""
    windows = stores.window("windows", int, size=1000, retention=10**12)
    last = stores.timestamped("last", int)
    unlogged = stores.key_value("unlogged", int).without_changelog()
    app = App("visits")

    def keep(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.store(windows).put(record.key, record.timestamp // 1000 * 1000, record.value)
        ctx.store(last).put(record.key, record.value, record.timestamp)
        ctx.store(unlogged).put(record.key, record.value)

    app.stream(VISITS).process("keep", keep, stores=[windows, last, unlogged])
    return app


@pytest.mark.usefixtures("working")
def test_rows_come_by_key_over_all_partitions(client: Client, connection: Connection) -> None:
    names = sorted(f"key-{number:03}" for number in range(50))
    for name in names:
        connection.send(EVENTS, name, 1)
    wait_for(lambda: len(got(client, "/stores/counted")["rows"]) == 50)
    seen: list[Any] = []
    query: dict[str, Any] = {"limit": "7", "type": "int"}
    while True:
        page = got(client, "/stores/counted", **query)
        seen += page["rows"]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert [(row["key"], row["value"]) for row in seen] == [(name, 1) for name in names]
    assert {row["partition"] for row in seen} == {0, 1}
    some = got(client, "/stores/counted?from=key-010&to=key-013")
    assert [row["key"] for row in some["rows"]] == ["key-010", "key-011", "key-012"]
    assert got(client, "/stores/counted?from=%FF")["rows"] == [], "bounds are bytes"
    [one] = got(client, "/stores/counted/key-007", type="int")["rows"]
    assert (one["key"], one["value"]) == ("key-007", 1)
    assert got(client, "/stores/counted/nobody")["rows"] == []


def test_rows_of_windows_are_shown_with_their_times(client: Client, log: SqliteLog, tmp_path: Path) -> None:
    working = Working(log, tmp_path, visits)
    moment = 1_700_000_000_000
    rows = [Row(b"ada", (2**63 + value).to_bytes(8, "big"), moment + value * 1000) for value in (1, 2)]
    log.append(TopicPartition("visits", 0), to_batch(rows))
    wait_for(lambda: len(got(client, "/stores/windows")["rows"]) == 2)
    answer = got(client, "/stores/windows/ada", type="int")["rows"]
    assert [(row["start"], row["value"]) for row in answer] == [(moment + 1000, 1), (moment + 2000, 2)]
    [last] = got(client, "/stores/last/ada", type="int")["rows"]
    assert (last["timestamp"], last["value"]) == (moment + 2000, 2)
    of_key = got(client, "/stores/windows/ada", limit="1")
    [second] = got(client, "/stores/windows/ada", limit="1", after=of_key["next"])["rows"]
    assert second["start"] == moment + 2000
    page = got(client, "/stores/windows", limit="1")
    [rest] = got(client, "/stores/windows", limit="1", after=page["next"])["rows"]
    assert rest["start"] == moment + 2000
    assert got(client, "/stores/unlogged", code=400)["error"]["code"] == "no-changelog"
    log.append(TopicPartition("visits", 0), to_batch([Row(b"big", b"\xff" * 8, moment)]))
    wait_for(lambda: len(got(client, "/stores/last")["rows"]) == 2)
    [big] = got(client, "/stores/last/big")["rows"]
    assert big["value"] == 2**63 - 1, "without a type as it was declared, with all digits"
    names = {one["store"] for one in got(client, "/stores")["stores"]}
    assert names == {"windows", "last", "unlogged"}
    working.close()


@pytest.mark.usefixtures("working")
def test_an_answer_waits_for_the_requested_position(serve: Serve, connection: Connection) -> None:
    """What one server has shown, another shows too, if it gets that position."""
    one, other = serve(), serve()
    for turn in range(1, 30):
        connection.send(EVENTS, "ada", turn)
        wait_for(lambda turn=turn: _count(one) == turn)  # type: ignore[misc]
        position = got(one, "/stores/counted/ada")["position"]
        [row] = got(other, "/stores/counted/ada", at_least=position, type="int")["rows"]
        assert row["value"] >= turn


def _count(client: Client) -> int:
    rows = got(client, "/stores/counted/ada", type="int")["rows"]
    return int(rows[0]["value"]) if rows else 0


@pytest.mark.usefixtures("working")
def test_a_position_that_is_never_reached_is_reported(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.server.routes import stores as routes

    monkeypatch.setattr(routes, "WAIT_SECONDS", 0.3)  # a time-out that the test waits for
    answer = got(client, "/stores/counted", code=503, at_least="gated-counted-changelog:0=999")["error"]
    assert (answer["code"], answer["retryable"]) == ("replica-behind", True)


def test_a_store_is_read_while_its_tasks_are_away(
    client: Client, log: SqliteLog, tmp_path: Path, connection: Connection
) -> None:
    """As while they restore: the answer comes from the changelog."""
    working = Working(log, tmp_path)
    connection.send(EVENTS, "ada", 1, 2, 3)
    wait_for(lambda: _count(client) == 3)
    working.close()
    assert _count(client) == 3


def test_a_recreated_app_is_read_from_its_start(
    client: Client, log: SqliteLog, tmp_path: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its changelogs are other topics of the same names."""
    monkeypatch.setattr(LiveReplica, "retry_seconds", 0.05)  # a second otherwise
    first = Working(log, tmp_path / "one")
    connection.send(EVENTS, "ada", 1, 2)
    wait_for(lambda: _count(client) == 2)
    first.close()
    for topic in log.names():
        log.delete(topic)
    second = Working(log, tmp_path / "two")
    connection.send(EVENTS, "bob", 1)

    def rows() -> list[str]:
        answer = client.get("/stores/counted")
        return [row["key"] for row in answer.json()["rows"]] if answer.status_code == 200 else []

    wait_for(lambda: rows() == ["bob"])
    second.close()
