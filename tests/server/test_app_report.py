"""How an app is doing, derived from what lies in its control and status topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rich.console import Console
from tests.gate.app import EVENTS, gated
from tests.server.conftest import Client
from tests.server.test_gates import got
from tests.server.test_watching import numbers, publish

from tidegate.cli.status_screen import as_group
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import Claim, request_stop, take_over
from tidegate.runtime.topics.control import Cause
from tidegate.runtime.topics.status import Ended, Failure, Landing, Recalculating, Warned, publish_status
from tidegate.server import app_follower, app_report, slot_status
from tidegate.server.app_follower import AppFollowers
from tidegate.server.app_report import AppReport, AppReports, DeadLetterCounts
from tidegate.types import TopicPartition

CLOCK = SystemClock()


@pytest.fixture
def run(log: SqliteLog) -> Run:
    return prepare(gated().build(), log, CLOCK, partitions=2)


@pytest.fixture
def claim(log: SqliteLog, run: Run) -> Iterator[Claim]:
    """A driver that took over."""
    with closing(take_over(log, "gated", 1, CLOCK)) as made:
        yield made


def planned(run: Run, claim: Claim) -> int:
    """Two slots, of which the first has one task. When that was."""
    first, *others = (task for _, task in run.tasks())
    run.plan(claim, {0: [first], 1: others}, {0: "here", 1: "there"})
    return CLOCK.now()


def seen(log: SqliteLog, run: Run) -> AppReport:
    with closing(AppFollowers(log, CLOCK)) as followers:
        return AppReports(log, followers).of(run.manifest)


def test_the_progress_of_a_recalculation_is_shown_while_it_is_published(log: SqliteLog, run: Run) -> None:
    assert seen(log, run).recalculating is None
    progress = Recalculating(
        1, -1, CLOCK.now(), round=1, done=5, to_do=9, complete=True, per_second=2.0, seconds_left=2.0
    )
    publish_status(log, "gated", progress, CLOCK.now() - 11_000)
    assert seen(log, run).recalculating is None
    publish_status(log, "gated", progress, CLOCK.now())
    found = seen(log, run)
    assert found.recalculating == progress
    assert found.slots == []
    console = Console(width=120)
    with console.capture() as shown:
        console.print(as_group([found], CLOCK.now(), one=True))
    assert "5 of 9 records, 2 per second, about 2 s left" in shown.get()


def at_work(**second: Any) -> list[Any]:
    return [numbers(0, running=1), numbers(1, running=3, **second)]


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that just published something is at work, however long this process takes to look."""
    monkeypatch.setattr(slot_status, "SILENT_SECONDS", 60.0)
    monkeypatch.setattr(app_follower, "UNKNOWN_AGE", 120.0)
    monkeypatch.setattr(app_report, "RESTART_SECONDS", 60.0)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan or a claim that was just written is as good as an old one."""
    monkeypatch.setattr(app_report, "PLAN_SECONDS", 0.0)
    monkeypatch.setattr(app_report, "LANDING_SECONDS", 0.0)


def test_an_app_that_was_only_prepared_was_never_started(log: SqliteLog, run: Run) -> None:
    found = seen(log, run)
    assert (found.state, found.since, found.slots, found.tasks) == ("never-started", None, [], 0)


def test_a_start_that_died_before_it_made_the_other_topics_was_never_started(
    log: SqliteLog, run: Run
) -> None:
    for topic in ("gated-positions", "gated-status", "gated-dead-letters"):
        log.delete(topic)
    assert seen(log, run).state == "never-started"


def test_a_driver_that_took_over_is_starting_until_its_slots_work(
    log: SqliteLog, run: Run, claim: Claim
) -> None:
    found = seen(log, run)
    assert (found.state, found.epoch) == ("starting", 1)
    publish(log, Landing(1, 0, 1, "here", 7, "m"), Landing(1, 1, 1, "there", 8, "m"))
    assert seen(log, run).state == "starting"
    at = planned(run, claim)
    found = seen(log, run)
    assert found.state == "starting"
    assert found.since is not None
    assert abs(found.since - at) < 60_000


@pytest.mark.usefixtures("no_patience")
def test_a_driver_that_died_before_its_plan_is_silent(log: SqliteLog, run: Run, claim: Claim) -> None:
    assert claim
    assert seen(log, run).state == "silent"


def test_running_with_what_the_slots_do(
    log: SqliteLog, run: Run, claim: Claim, connection: Connection
) -> None:
    planned(run, claim)
    connection.send(EVENTS, "ada", *range(5))
    publish(log, *at_work())
    found = seen(log, run)
    assert (found.state, found.at_work, found.tasks, found.tasks_running) == ("running", 2, 4, 4)
    assert (found.lag, found.restarts, found.last_failure, found.records_per_second) == (5, 0, None, 6.0)
    assert [slot.host for slot in found.slots] == ["here", "there"]


def test_restoring_while_any_slot_restores(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, *at_work(restoring=2, restored=250, to_restore=1000))
    found = seen(log, run)
    assert (found.state, found.tasks_restoring) == ("restoring", 2)
    assert (found.restored, found.to_restore) == (250, 1000)


@pytest.mark.usefixtures("no_patience")
def test_one_slot_at_work_is_partial_and_none_is_silent(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, numbers(0), ago=300)
    found = seen(log, run)
    assert found.state == "silent"
    assert found.since is not None
    assert 290_000 < CLOCK.now() - found.since < 400_000, "since the last sign of life"
    publish(log, numbers(1))
    found = seen(log, run)
    assert (found.state, [slot.state for slot in found.slots]) == ("partial", ["silent", "running"])


@pytest.mark.usefixtures("no_patience")
def test_a_record_from_a_clock_far_ahead_is_no_sign_of_life_until_another_comes(
    log: SqliteLog, run: Run, claim: Claim
) -> None:
    planned(run, claim)
    publish(log, *at_work(), ago=-600)
    with closing(AppFollowers(log, CLOCK)) as followers:
        reports = AppReports(log, followers)
        assert reports.of(run.manifest).state == "silent"
        publish(log, *at_work(), ago=-600)
        assert reports.of(run.manifest).state == "running"


@pytest.mark.usefixtures("no_patience")
def test_failures_show_with_the_restarts_they_caused(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, *at_work(), Failure(1, 0, 1, "user-code", "bad", "mend it"))
    publish(log, Failure(1, 0, 1, "slot-lost", "lost", "look", by_driver=True))
    publish(log, Failure(1, 1, 1, "slot-lost", "killed", "look", by_driver=True))
    found = seen(log, run)
    assert found.state == "restarting"
    assert found.last_failure is not None
    assert (found.last_failure.code, found.last_failure.slot) == ("slot-lost", 1)
    for slot in (0, 1):
        claim.begin_attempt(slot, 2, CLOCK.now())
        publish(log, Landing(1, slot, 2, "here", 9, "m"), numbers(slot))
    found = seen(log, run)
    assert (found.state, found.restarts) == ("running", 2)
    assert found.last_failure is not None


def test_what_a_slot_reported_is_not_replaced_by_what_the_driver_saw(
    log: SqliteLog, run: Run, claim: Claim
) -> None:
    planned(run, claim)
    publish(log, *at_work(), Failure(1, 0, 1, "user-code", "bad", "mend it"))
    publish(log, Failure(1, 0, 1, "slot-lost", "lost", "look", by_driver=True))
    found = seen(log, run)
    assert found.last_failure is not None
    assert found.last_failure.code == "user-code"


def test_a_failed_stage_hides_no_warning_of_the_driver(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, Failure(1, -1, 3, "slot-lost", "stage", "look", by_driver=True))
    publish(log, Warned(1, -1, 0, "code-not-compared", "m", "h"))
    assert [one.code for one in seen(log, run).warnings] == ["code-not-compared"]


def test_stopping_until_the_slots_have_ended(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, *at_work())
    request_stop(log, "gated", "user", CLOCK.now())
    assert seen(log, run).state == "stopping"
    publish(log, Ended(1, 0, 1, 9), Ended(1, 1, 1, 9))
    assert (seen(log, run).state, seen(log, run).last_failure) == ("stopped", None)


def test_a_stop_for_a_new_plan_is_a_start(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    request_stop(log, "gated", "driver", CLOCK.now(), 1, for_new_plan=True)
    publish(log, Ended(1, 0, 1, 9), Ended(1, 1, 1, 9))
    assert seen(log, run).state == "starting"


def test_failed_with_the_cause_however_long_ago(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    cause = Cause("user-code", "ValueError: unlucky", "mend it")
    request_stop(log, "gated", "driver", 1234, 1, failure=cause)
    found = seen(log, run)
    assert (found.state, found.since) == ("failed", 1234)
    assert found.last_failure is not None
    assert (found.last_failure.code, found.last_failure.slot, found.last_failure.at) == (
        "user-code",
        None,
        1234,
    )


def test_the_next_start_ends_the_failure(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    request_stop(log, "gated", "driver", 1234, 1, failure=Cause("user-code", "m", "h"))
    claim.close()
    with closing(take_over(log, "gated", 1, CLOCK)):
        found = seen(log, run)
    assert (found.state, found.epoch, found.last_failure) == ("starting", 2, None)


def test_a_deleted_source_hides_the_lag_and_nothing_else(log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, *at_work())
    log.delete("events")
    assert (seen(log, run).state, seen(log, run).lag) == ("running", None)


def test_dead_letters_are_counted_in_their_topic_up_to_a_limit(
    log: SqliteLog, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = DeadLetterCounts(log)
    assert run
    assert (counts.of("gated").records, counts.of("gated").topic) == (0, "gated-dead-letters")
    log.append(TopicPartition("gated-dead-letters", 0), to_batch([Row(b"k", b"v", 1)] * 3))
    assert (counts.of("gated").records, counts.of("gated").at_least) == (3, False)
    monkeypatch.setattr(app_report, "MOST_DEAD_LETTERS", 4)  # so that seven records pass it
    log.append(TopicPartition("gated-dead-letters", 0), to_batch([Row(b"k", b"v", 1)] * 3))
    assert (counts.of("gated").records, counts.of("gated").at_least) == (4, True)
    assert counts.of("nobody").records == 0


def test_the_server_returns_the_same_report(client: Client, log: SqliteLog, run: Run, claim: Claim) -> None:
    planned(run, claim)
    publish(log, *at_work())
    answer = got(client, "/apps/gated")
    assert (answer["app"], answer["state"], answer["tasks_running"]) == ("gated", "running", 4)
    assert answer["dead_letters"] == {"topic": "gated-dead-letters", "records": 0, "at_least": False}
    assert [one["app"] for one in got(client, "/apps")["apps"]] == ["gated"]
    assert got(client, "/apps/none", code=404)["error"]["code"] == "never-started"
