"""What a server knows of an app: the lag from the log, slots that are silent, and no topic read twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.gate.app import EVENTS, gated
from tests.server.conftest import Client
from tests.server.test_apps import samples
from tests.server.test_gates import got
from tests.waiting import wait_for

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.errors import LogError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.slot_overview import SILENT_SECONDS
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.topics.lag import lag_of
from tidegate.runtime.topics.manifests import Manifests
from tidegate.runtime.topics.status import (
    Ended,
    Failure,
    Landing,
    Numbers,
    Warned,
    publish_status,
    status_topic,
)
from tidegate.server import app_follower as watching
from tidegate.server import slot_status
from tidegate.server.app_follower import AppFollower, AppFollowers
from tidegate.server.follower_pool import PoolSize
from tidegate.server.slot_status import SlotStatuses
from tidegate.types import Offset, TopicPartition

CLOCK = SystemClock()


@pytest.fixture
def run(log: SqliteLog) -> Run:
    return prepare(gated().build(), log, CLOCK, partitions=2)


@pytest.fixture
def claim(log: SqliteLog, run: Run) -> Iterator[Claim]:
    """A driver that planned two slots, of which one has all tasks but one."""
    with closing(take_over(log, "gated", 1, CLOCK)) as made:
        first, *others = (task for _, task in run.tasks())
        made.begin_attempt(0, 1, CLOCK.now())
        made.begin_attempt(1, 1, CLOCK.now())
        run.plan(made, {0: [first], 1: others}, {0: "here", 1: "there"})
        yield made


def numbers(slot: int, epoch: int = 1, **more: Any) -> Numbers:
    reported = {
        "records": 9,
        "per_second": 3.0,
        "lag": 53,
        "skipped": 0,
        "running": 1,
        "restoring": 0,
        **more,
    }
    return Numbers(epoch, slot, CLOCK.now(), **reported)


def publish(log: SqliteLog, *reported: Any, ago: float = 0.0) -> None:
    for one in reported:
        publish_status(log, "gated", one, CLOCK.now() - round(ago * 1000))


def metrics(client: Client) -> dict[str, float]:
    return samples(client.get("/metrics").text)


def tasks_in(client: Client, state: str) -> float:
    return sum(value for name, value in metrics(client).items() if f'state="{state}"' in name)


def test_what_waits_shows_before_anything_runs(
    client: Client, run: Run, log: SqliteLog, connection: Connection
) -> None:
    """Neither a plan nor a position is there yet: all of the source waits."""
    assert run
    connection.send(EVENTS, "ada", *range(15))
    [app] = got(client, "/tasks")["apps"]
    assert (app["lag"], app["slots"]) == (15, [])
    assert metrics(client)['tidegate_lag_records{app="gated",slot=""}'] == 15
    assert sum(one.lag for one in lag_of(log, "gated")) == 15
    assert {one.task for one in lag_of(log, "gated")} == {""}
    assert lag_of(log, "unknown") == []


@pytest.mark.usefixtures("claim")
def test_lag_comes_from_the_log_whatever_a_slot_reported_last(
    client: Client, log: SqliteLog, connection: Connection
) -> None:
    publish(log, numbers(0, running=1), numbers(1, running=3))
    for count in (10, 20):
        connection.send(EVENTS, "ada", *range(10))
        found = metrics(client)
        assert sum(value for name, value in found.items() if name.startswith("tidegate_lag_records")) == count
    [app] = got(client, "/tasks")["apps"]
    assert app["lag"] == sum(slot["lag"] for slot in app["slots"]) == 20


@pytest.mark.usefixtures("claim")
def test_a_slot_that_is_silent_is_not_running(
    client: Client, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_status, "SILENT_SECONDS", 0.5)  # a time-out that the test waits for
    assert tasks_in(client, "silent") == 4, "a plan alone is no slot that runs"
    publish(
        log,
        Landing(1, 0, 1, "here", 7, "m"),
        numbers(0),
        Landing(1, 1, 1, "there", 8, "m"),
        numbers(1, running=3),
    )

    def is_shown() -> bool:
        publish(log, numbers(1, running=3))
        found = metrics(client)
        states = {
            state: found[f'tidegate_tasks{{app="gated",slot="0",state="{state}"}}']
            for state in ("running", "silent")
        }
        others = found['tidegate_tasks{app="gated",slot="1",state="running"}']
        return states == {"running": 0, "silent": 1} and others == 3

    def is_listed() -> bool:
        publish(log, numbers(1, running=3))
        [silent, running] = got(client, "/tasks")["apps"][0]["slots"]
        assert silent["numbers"]["records"] == 9, "what it has done counts still"
        return (silent["state"], running["state"]) == ("silent", "running")

    def all_run() -> bool:
        publish(log, numbers(0), numbers(1, running=3))
        return tasks_in(client, "running") == 4

    wait_for(is_shown)
    wait_for(is_listed)
    wait_for(all_run)


def test_numbers_that_lie_there_already_are_as_old_as_they_are(
    client: Client, claim: Claim, log: SqliteLog
) -> None:
    assert claim
    publish(log, numbers(0), ago=60)
    publish(log, numbers(1, running=3), ago=0.5)
    assert (tasks_in(client, "running"), tasks_in(client, "silent")) == (3, 1)


def test_restarts_failures_and_dead_letters_are_counted(client: Client, claim: Claim, log: SqliteLog) -> None:
    publish(log, Failure(1, 0, 1, "before", "m", "h"))
    found = metrics(client)
    assert found['tidegate_slot_restarts_total{app="gated",slot="0"}'] == 0
    assert found['tidegate_slot_failures_total{app="gated",code="before"}'] == 0, "it was no news"
    publish(log, Failure(1, 0, 1, "user-code", "m", "h"))
    assert tasks_in(client, "failed") == 1
    claim.begin_attempt(0, 2, CLOCK.now())
    publish(log, Landing(1, 0, 2, "elsewhere", 9, "m"))
    assert tasks_in(client, "starting") == 1
    publish(log, Failure(1, 0, 2, "user-code", "m", "h"))
    claim.begin_attempt(0, 3, CLOCK.now())
    publish(
        log, Landing(1, 0, 3, "elsewhere", 9, "m"), numbers(0, dead_letters=2), numbers(1, dead_letters=5)
    )
    found = metrics(client)
    assert found['tidegate_slot_restarts_total{app="gated",slot="0"}'] == 2
    assert found['tidegate_slot_restarts_total{app="gated",slot="1"}'] == 0
    assert found['tidegate_slot_failures_total{app="gated",code="user-code"}'] == 2
    assert found['tidegate_dead_letters_total{app="gated",slot="0"}'] == 2
    assert found['tidegate_dead_letters_total{app="gated",slot="1"}'] == 5
    [slot, _] = got(client, "/tasks")["apps"][0]["slots"]
    assert (slot["host"], slot["restarts"]) == ("elsewhere", 2)
    publish(log, Ended(1, 0, 3, 9), Ended(1, 1, 1, 9))
    assert tasks_in(client, "stopped") == 4


@pytest.mark.usefixtures("claim")
def test_stores_that_were_rebuilt_and_batches_taken_apart_show(client: Client, log: SqliteLog) -> None:
    old, new = Warned(1, 0, 1, "store-rebuilt", "old", "h"), Warned(1, 1, 1, "store-rebuilt", "new", "h")
    publish(log, old, numbers(0, rebuilt=1, emptied=2, gaps=3, batches_taken_apart=4), numbers(1))
    metrics(client)
    publish(log, new)
    found = metrics(client)
    for name, count in (
        ("rebuilt_stores", 1),
        ("emptied_stores", 2),
        ("store_gaps", 3),
        ("batches_taken_apart", 4),
    ):
        assert found[f'tidegate_{name}_total{{app="gated",slot="0"}}'] == count
        assert found[f'tidegate_{name}_total{{app="gated",slot="1"}}'] == 0
    assert found['tidegate_warnings_total{app="gated",code="store-rebuilt"}'] == 1
    [app] = got(client, "/tasks")["apps"]
    assert [(one["slot"], one["code"], one["message"]) for one in app["warnings"]] == [
        (0, "store-rebuilt", "old"),
        (1, "store-rebuilt", "new"),
    ]
    assert app["slots"][0]["numbers"]["rebuilt"] == 1


@pytest.mark.usefixtures("claim")
def test_topics_are_read_once_however_many_requests_come(
    client: Client, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    opened = SqliteLog.reader

    def reader(self: SqliteLog, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> Any:
        read.extend(one.topic for one in positions)
        return opened(self, positions, brief=brief)

    publish(log, *(numbers(0) for _ in range(300)))
    monkeypatch.setattr(SqliteLog, "reader", reader)  # the server opens its log by its URL
    for number in range(5):
        publish(log, numbers(0, records=number))
        assert metrics(client)['tidegate_records_total{app="gated",slot="0"}'] == number
        assert got(client, "/tasks")["apps"][0]["slots"][0]["numbers"]["records"] == number
    assert [read.count(f"gated-{topic}") for topic in ("status", "positions")] == [1, 1]


class NotedReads(SqliteLog):
    """A log that notes which topics are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, upkeep=False)
        self.read: list[str] = []

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> SqliteReader:
        self.read.extend(one.topic for one in positions)
        return super().reader(positions, brief=brief)


def test_a_control_topic_is_read_again_when_something_was_written_to_it(
    config: Config, log: SqliteLog, claim: Claim
) -> None:
    with closing(NotedReads(config.folder / "log.db")) as noted:
        known = Manifests(noted)
        assert [one.app for one in known.all()] == ["gated"]
        noted.read.clear()
        for _ in range(3):
            assert [one.app for one in known.all()] == ["gated"]
        assert noted.read == []
        claim.begin_attempt(0, 2, CLOCK.now())
        assert [one.app for one in known.all()] == ["gated"]
        assert set(noted.read) == {"gated-control"}
        for name in log.names():
            log.delete(name)
        assert list(known.all()) == []
        prepare(gated().build(), log, CLOCK, partitions=2)
        assert [one.app for one in known.all()] == ["gated"]


def test_a_slot_goes_through_its_states() -> None:
    seen = SlotStatuses()

    def state(at: float) -> str:
        return seen.slots[0].state(at)

    seen.take(Landing(2, 0, 1, "here", 7, "m"), 10.0, counts=True)
    assert (state(10.0), state(11 + SILENT_SECONDS)) == ("starting", "silent")
    seen.take(numbers(0, 2, restoring=2), 11.0, counts=True)
    assert state(12.0) == "restoring"
    seen.take(numbers(0, 2), 12.0, counts=True)
    assert (state(12 + SILENT_SECONDS), state(12.1 + SILENT_SECONDS)) == ("running", "silent")
    seen.take(Failure(1, 0, 9, "old", "m", "h"), 13.0, counts=True)
    assert (state(13.0), dict(seen.failures)) == ("running", {}), "of an older epoch"
    seen.take(Landing(2, 0, 2, "there", 7, "m"), 14.0, counts=True)
    assert seen.slots[0].tasks(14.0, 3)["starting"] == 3
    seen.take(Ended(2, 0, 1, 9), 14.0, counts=True)
    assert state(14.0) == "starting", "of an older attempt"
    seen.take(Ended(2, 0, 2, 9), 15.0, counts=True)
    assert state(99.0) == "stopped"
    seen.take(Landing(3, 0, 1, "here", 7, "m"), 100.0, counts=True)
    assert (state(100.0), seen.slots[0].numbers, seen.newest()) == ("starting", None, 3)


def test_a_follower_goes_on_when_its_topics_are_made_again(
    log: SqliteLog, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppFollower, "retry_seconds", 0.01)  # a second otherwise
    manifest = run.manifest
    with closing(AppFollowers(log, CLOCK)) as held:
        publish(log, numbers(0))
        assert held.state(manifest).statuses.slots.keys() == {0}
        log.delete("gated-status")

        def known() -> set[int]:
            try:
                return set(held.state(manifest).statuses.slots)
            except LogError:
                return {-1}

        wait_for(lambda: known() == set())
        log.delete("gated-positions")
        wait_for(lambda: known() == {-1})
        prepare_again(log)
        wait_for(lambda: known() == set())
        held.end()
        with pytest.raises(LogError, match="server-ends"):
            held.state(manifest)


def prepare_again(log: SqliteLog) -> None:
    from tidegate.log.positions import positions_topic

    log.create(positions_topic("gated"))
    log.create(status_topic("gated"))


def test_a_status_topic_that_comes_later_is_read(
    log: SqliteLog, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.01)  # how often it looks for the topic
    log.delete("gated-status")
    with closing(AppFollowers(log, CLOCK)) as held:
        assert held.state(run.manifest).statuses.slots == {}
        log.create(status_topic("gated"))
        publish(log, numbers(0))
        wait_for(lambda: set(held.state(run.manifest).statuses.slots) == {0})
        publish(log, numbers(1))
        assert set(held.state(run.manifest).statuses.slots) == {0, 1}


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("tidegate-app-")}


def followers() -> set[str]:
    return {thread.name.removeprefix("tidegate-app-") for thread in threads()}


def manifest_of(log: SqliteLog, number: int) -> Any:
    app = App(f"app{number}")
    app.stream(Topic("events", int)).to(Topic(f"out{number}", int))
    return prepare(app.build(), log, CLOCK, partitions=2).manifest


def test_followers_in_use_are_kept_up_to_the_limit(log: SqliteLog) -> None:
    manifests = [manifest_of(log, number) for number in range(5)]
    size = PoolSize(soft_limit=2, hard_limit=4, unused_seconds=300.0)
    with closing(AppFollowers(log, CLOCK, size)) as held:
        for manifest in manifests[:4]:
            held.state(manifest)
        before = threads()
        for manifest in manifests[:4]:
            assert held.state(manifest).plan.epoch == 0
        assert threads() == before
        assert followers() == {"app0", "app1", "app2", "app3"}
        held.state(manifests[4])
        assert followers() == {"app1", "app2", "app3", "app4"}
    assert followers() == set()


def test_the_least_recently_used_follower_is_evicted(log: SqliteLog) -> None:
    size = PoolSize(soft_limit=2, hard_limit=4, unused_seconds=0.0)
    with closing(AppFollowers(log, CLOCK, size)) as held:
        for number in range(3):
            assert held.state(manifest_of(log, number)).plan.epoch == 0
        assert followers() == {"app1", "app2"}
    assert followers() == set()
