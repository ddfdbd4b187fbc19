"""A server that has read less than a client, or than it had read before, and what its streams get then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.app import EVENTS, Started, StepDone
from tests.server.conftest import Client, Serve
from tests.server.model_streams import CHANGELOG, W1, Held, events_of, following, one_frame, put_row, row_of
from tests.waiting import HANG_SECONDS

from tidegate.errors import LogError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.server import model_hub
from tidegate.server.live_replica import LiveReplica
from tidegate.testing import Driver, ModelView
from tidegate.types import TopicPartition


@pytest.fixture
def may_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is cleared, replicas apply nothing: the server is behind."""
    event = threading.Event()
    event.set()
    apply = LiveReplica._apply

    def held(self: LiveReplica, fetched: Any) -> None:
        event.wait(HANG_SECONDS)
        apply(self, fetched)

    monkeypatch.setattr(LiveReplica, "_apply", held)
    yield event
    event.set()


def test_a_server_that_is_behind_reads_on_and_resets_nobody(
    client: Client, d: Driver, model: ModelView, may_read: threading.Event
) -> None:
    one_frame(client, W1)
    may_read.clear()
    d.send(EVENTS, "w1", StepDone("send", 2.0))
    d.run()
    token = model.token("w1")
    threading.Timer(0.3, may_read.set).start()
    frame = one_frame(client, W1, token)
    assert (frame["event"], frame["from"], frame["patch"]) == ("patch", token, {})


def test_an_id_that_was_just_created_is_found_by_a_server_that_is_behind(
    client: Client, d: Driver, model: ModelView, may_read: threading.Event
) -> None:
    one_frame(client, W1)
    may_read.clear()
    d.send(EVENTS, "new", Started("New"))
    d.run()
    threading.Timer(0.3, may_read.set).start()
    assert client.get("/workflows/new").json()["token"] == model.token("new")


def test_a_server_that_just_starts_responds_at_once(
    client: Client, model: ModelView, may_read: threading.Event
) -> None:
    may_read.clear()
    with client.stream("GET", W1) as answer:
        assert answer.status_code == 200
        events = events_of(answer)
        assert next(events) == {"retry": "1000"}
        assert "reading the log" in next(events)[""]
        may_read.set()
        assert next(events)["id"] == model.token("w1")


def recreate(log: SqliteLog) -> None:
    """Delete the changelog, and create it with one row of w1."""
    log.delete(CHANGELOG)
    log.create(TopicSpec(CHANGELOG, 2, {"cleanup.policy": "compact"}))
    put_row(log, "w1", row_of(1))


def test_a_log_that_lost_its_end_sends_the_state(
    serve: Serve, d: Driver, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog was deleted and written again, in part: the stream goes on, from what is there."""
    monkeypatch.setattr(LiveReplica, "retry_seconds", 0.01)  # a second otherwise
    monkeypatch.setattr(model_hub, "ASK_AGAIN_SECONDS", 0.1)  # two otherwise
    assert d
    held = Held()
    with following(serve(), W1) as frames:
        held.take(next(frames))
        recreate(log)
        held.take(next(frames))
        if held.kinds[-1] == "gone":  # the server has seen the topic before its first row
            held.take(next(frames))
        assert (held.state["number"], held.kinds[-1]) == (1, "state")
        put_row(log, "w1", row_of(2))
        held.take(next(frames))
    assert (held.state["number"], held.kinds[-1]) == (2, "patch")


def test_a_log_that_loses_its_end_while_a_server_reads_up_to_it_sends_the_state(
    client: Client, d: Driver, model: ModelView, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server waits for an end that is never reached, until it asks for the end again."""
    monkeypatch.setattr(LiveReplica, "retry_seconds", 0.01)  # a second otherwise
    monkeypatch.setattr(model_hub, "ASK_AGAIN_SECONDS", 0.1)  # two otherwise
    monkeypatch.setattr(model_hub, "HEARTBEAT_SECONDS", 2.0)  # after some of them a stream counts as hung
    one_frame(client, W1)
    asked, goes_on = threading.Event(), threading.Event()
    end_of, apply = model_hub.Hub._end_of, LiveReplica._apply

    async def asking(self: model_hub.Hub, partition: TopicPartition) -> int:
        found = await end_of(self, partition)
        asked.set()
        return found

    def failing(self: LiveReplica, fetched: Any) -> None:
        monkeypatch.setattr(LiveReplica, "_apply", apply)
        goes_on.wait(HANG_SECONDS)
        raise LogError("broker-away", "the records cannot be read", retryable=True)

    monkeypatch.setattr(model_hub.Hub, "_end_of", asking)
    monkeypatch.setattr(LiveReplica, "_apply", failing)
    d.send(EVENTS, "w1", *(StepDone("send", float(number)) for number in range(9)))
    d.run()
    with following(client, W1, params={"hash": model.token("w1")}) as frames:
        assert asked.wait(HANG_SECONDS)
        recreate(log)
        goes_on.set()
        frame = next(frames)
    assert (frame["event"], frame["state"]["number"]) == ("state", 1)
