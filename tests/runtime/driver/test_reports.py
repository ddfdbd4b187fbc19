"""What a run reports of its troubles: to its own view as they happen, and to the log for others."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet, send, wordcount

from tidegate import App
from tidegate.errors import UserCodeError
from tidegate.log import names
from tidegate.log.reads import read_between
from tidegate.runtime.driver.slot_overview import SlotOverview
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Status, decoded
from tidegate.types import TopicPartition


def published(fleet: Fleet) -> list[Status]:
    """All of the status topic."""
    partition = TopicPartition(names.status("wordcount"), 0)
    end = fleet.log.ends([partition])[partition]
    batches = read_between(fleet.log, partition, 0, end)
    found = [decoded(value) for batch in batches for value in batch.column(3).to_pylist()]
    return [one for one in found if one is not None]


@pytest.mark.slow
def test_a_job_that_was_killed_is_reported_by_the_driver_in_the_status_topic(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    driver, launcher = fleet.driver(until_caught_up=True)

    def kill_once(order: SlotOrder) -> None:
        if order.slot == 1 and order.attempt == 1:
            raise RuntimeError("Python worker exited unexpectedly (crashed)")

    launcher.before = kill_once
    driver.run()
    [failure] = [one for one in published(fleet) if isinstance(one, Failure)]
    assert (failure.slot, failure.attempt, failure.code, failure.by_driver) == (1, 1, "slot-lost", True)
    assert "crashed" in failure.message
    _, events = driver.overview.events_after(0)
    reported = [(type(one), one.attempt) for one in events if one.slot == 1 and not isinstance(one, Numbers)]
    assert reported == [(Failure, 1), (Landing, 2), (Ended, 2)]


@pytest.mark.slow
def test_an_error_that_a_slot_reports_itself_is_one_event_and_ends_in_the_control_topic(fleet: Fleet) -> None:
    def unlucky(line: str) -> list[str]:
        raise ValueError("unlucky")

    fleet.app = lambda: wordcount(unlucky)
    send(fleet, 0, 5)
    driver, _ = fleet.driver(1, until_caught_up=True, patience=replace(QUICK, failures=2))
    with pytest.raises(UserCodeError):
        driver.run()
    _, events = driver.overview.events_after(0)
    failures = [one for one in events if isinstance(one, Failure)]
    assert [(one.attempt, one.code, one.by_driver) for one in failures] == [
        (number, "user-code", False) for number in range(1, len(failures) + 1)
    ]
    assert len(failures) >= 3
    stop = read_control(fleet.log, "wordcount").stop(ROLE)
    assert stop.failure is not None
    assert stop.failure.code == "user-code"
    assert "unlucky" in stop.failure.message


@pytest.mark.slow
def test_a_stop_in_order_names_no_failure_and_control_records_have_times(fleet: Fleet) -> None:
    driver, _ = fleet.catch_up()
    control = read_control(fleet.log, "wordcount")
    assert control.stop(ROLE).failure is None
    assert 0 < control.times[f"plan/{ROLE}"] <= control.times[f"stop/{ROLE}"]
    assert driver.overview.plans == 1


@pytest.mark.slow
def test_the_end_of_a_slot_reports_dead_letters_of_its_last_second(fleet: Fleet) -> None:
    def unlucky(line: str) -> list[str]:
        if line.startswith("bad"):
            raise ValueError("unlucky")
        return line.split()

    def made() -> App:
        app = App("wordcount")
        stream = app.stream(LINES, on_error="dead-letter").flat_map(unlucky)
        stream.group_by("by-word", str).count("counts").to(COUNTS)
        return app

    fleet.app = made
    fleet.connection.send(LINES, "k", "bad 1", "bad 2", "good")
    fleet.catch_up(1)
    [ended] = [one for one in published(fleet) if isinstance(one, Ended)]
    assert ended.dead_letters == 2


def failure(attempt: int, code: str, *, by_driver: bool = False) -> Failure:
    return Failure(1, 0, attempt, code, "m", "h", by_driver=by_driver)


def test_what_the_driver_saw_from_outside_does_not_replace_what_the_slot_reported() -> None:
    view = SlotOverview()
    view.add_seen_by_driver(failure(1, "slot-lost"))
    view.add(failure(1, "user-code"))
    view.add(failure(1, "slot-lost", by_driver=True))
    assert [one.code for _, one in view.failures] == ["user-code"]
    view.add(failure(2, "slot-lost", by_driver=True))
    assert [one.code for _, one in view.failures] == ["user-code", "slot-lost"]
    seen, events = view.events_after(0)
    assert [(one.attempt, one.code) for one in events if isinstance(one, Failure)] == [
        (1, "user-code"),
        (2, "slot-lost"),
    ]
    assert view.events_after(seen) == (seen, [])


def test_only_orders_of_this_epoch_that_every_executor_refused_end_a_run() -> None:
    view, refused = SlotOverview(), msgspec.structs.replace(failure(1, "other-code"), refused=True)
    view.add(refused)
    assert view.all_refused(1, 1)
    assert not view.all_refused(1, 2)
    assert not view.all_refused(2, 1)
    view.add(failure(2, "slot-lost", by_driver=True))  # tried again, and killed
    assert not view.all_refused(1, 1)
    view.add(msgspec.structs.replace(refused, attempt=3))
    assert view.all_refused(1, 1)
    view.add(Landing(1, 1, 1, "here", 1, "m"))
    assert not view.all_refused(1, 1)


def test_what_the_driver_reports_of_a_slot_is_no_sign_of_life_of_it() -> None:
    view = SlotOverview()
    view.add(failure(1, "slot-lost", by_driver=True))
    assert view.last_report == {}


def test_events_beyond_those_that_are_kept_are_lost_and_none_comes_twice() -> None:
    view = SlotOverview()
    for attempt in range(1, 1502):
        view.add(Landing(1, 0, attempt, "here", 1, "m"))
    seen, events = view.events_after(1)
    assert (seen, len(events)) == (1501, 1000)
    assert view.events_after(seen) == (1501, [])
