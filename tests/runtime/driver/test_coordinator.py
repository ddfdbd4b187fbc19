"""The driver of an app: slots start, land, get their plan, fail, start again, and end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet, expected, send, wordcount
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.clock import SystemClock
from tidegate.errors import FencedError, LogError, UserCodeError
from tidegate.log import names
from tidegate.log.records import Row, to_batch
from tidegate.runtime.driver.coordinator import DriverState, Patience
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import request_stop
from tidegate.runtime.slot.slot import RECORDS_PER_STEP
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.types import TopicPartition

pytestmark = pytest.mark.slow


def test_caught_up_means_that_internal_topics_are_drained_too(fleet: Fleet) -> None:
    """The lines are taken at once, the words in several turns: a stop that comes too early shows."""
    fleet.app = lambda: wordcount(seconds_each=0.0005)
    lines = [f"a b{number % 10} c" for number in range(2 * RECORDS_PER_STEP)]
    fleet.connection.send(LINES, "k", *lines)
    driver, _ = fleet.catch_up()
    assert driver.state is DriverState.STOPPED
    assert fleet.counts() == expected(2 * RECORDS_PER_STEP)


def test_each_start_goes_on_where_the_last_one_ended_with_any_number_of_slots(fleet: Fleet) -> None:
    for turn, slots in enumerate((2, 3, 1)):
        send(fleet, 50 * turn, 50)
        driver, _ = fleet.catch_up(slots)
        assert driver.epoch == turn + 1
        plan = read_control(fleet.log, "wordcount").plan(ROLE)
        assert len(plan.slots) == slots
        assert sorted(task.partition for slot in plan.slots for task in slot.tasks) == [0, 0, 1, 1, 2, 2]
    assert fleet.counts() == expected(150)


def test_a_slot_that_fails_starts_again_as_a_new_attempt_and_nothing_counts_twice(fleet: Fleet) -> None:
    send(fleet, 0, 60)
    driver, launcher = fleet.driver(until_caught_up=True)
    failed: list[int] = []

    def fail_once(order: SlotOrder) -> None:
        if order.slot == 1 and not failed:
            failed.append(order.attempt)
            raise RuntimeError("a bad day")

    launcher.before = fail_once
    driver.run()
    assert [order.attempt for order in launcher.launched if order.slot == 1] == [1, 2]
    assert [failure.code for _, failure in driver.overview.failures] == ["slot-lost"]
    assert fleet.counts() == expected(60)


def test_a_slot_that_was_well_for_long_starts_again_at_once(fleet: Fleet) -> None:
    """Waiting is for what fails again and again."""
    send(fleet, 0, 60)
    patience = replace(QUICK, within_seconds=0.0, back_off_seconds=HANG_SECONDS)
    driver, launcher = fleet.driver(until_caught_up=True, patience=patience)

    def fail_once(order: SlotOrder) -> None:
        if order.slot == 1 and order.attempt == 1:
            raise RuntimeError("killed")

    launcher.before = fail_once
    driver.run()
    assert [order.attempt for order in launcher.launched if order.slot == 1] == [1, 2]
    assert fleet.counts() == expected(60)


def test_beyond_the_budget_the_app_stops_with_the_cause_first(fleet: Fleet) -> None:
    def unlucky(line: str) -> list[str]:
        if "b7" in line:
            raise ValueError("unlucky")
        return line.split()

    fleet.app = lambda: wordcount(unlucky)
    send(fleet, 0, 20)
    driver, _ = fleet.driver(until_caught_up=True)
    with pytest.raises(UserCodeError, match="ValueError: unlucky") as error:
        driver.run()
    assert error.value.code == "user-code"
    assert error.value.generation == 1
    assert error.value.position is not None
    topic, partition, offset = error.value.position
    [found] = [
        one for one in fleet.connection.read(LINES) if one.partition == partition and one.offset == offset
    ]
    assert (topic, "b7" in found.value) == (LINES.name, True)
    assert driver.state is DriverState.FAILED


def test_a_second_driver_takes_over_and_the_first_ends(fleet: Fleet) -> None:
    send(fleet, 0, 50)
    with fleet.running() as (first, _):
        wait_for(lambda: first.state is DriverState.RUNNING)
        with fleet.running() as (second, _):
            wait_for(lambda: first.state is DriverState.FAILED and second.state is DriverState.RUNNING)
            assert isinstance(first.error, FencedError)
            send(fleet, 50, 50)
            wait_for(lambda: fleet.counts() == expected(100))
    assert second.state is DriverState.STOPPED
    assert fleet.counts() == expected(100)


def test_a_driver_that_was_superseded_while_it_waited_stops_nobody_else(fleet: Fleet) -> None:
    """It names its own epoch in its stop, whatever it ends of."""
    patient = Patience(landing_seconds=HANG_SECONDS, stop_seconds=1)
    first, launcher = fleet.driver(patience=patient)
    launcher.before = lambda order: order.slot == 1 and launcher.cancelled[1].wait(HANG_SECONDS)
    with fleet.during(first):
        wait_for(lambda: 0 in first.overview.landings)
        with fleet.running() as (second, _):
            wait_for(lambda: first.state is DriverState.FAILED and second.state is DriverState.RUNNING)
            first.stop()
            send(fleet, 0, 30)
            wait_for(lambda: fleet.counts() == expected(30))
            assert second.state is DriverState.RUNNING
            assert read_control(fleet.log, "wordcount").stopped(ROLE) < second.epoch


def test_a_start_that_goes_no_further_does_not_fence_the_driver_that_runs(fleet: Fleet) -> None:
    with fleet.running(slots=1) as (driver, launcher):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        prepare(fleet.app().build(), fleet.log, SystemClock(), partitions=3)
        assert driver.claim is not None
        driver.claim.begin_attempt(0, 2, 1)
        wait_for(lambda: len(launcher.launched) > 1)
        assert driver.state is DriverState.RUNNING


def test_a_stop_from_outside_ends_the_app_in_order(fleet: Fleet) -> None:
    with fleet.running() as (driver, _):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        send(fleet, 0, 30)
        request_stop(fleet.log, "wordcount", "a-test", 1)
        wait_for(lambda: driver.state is DriverState.STOPPED)
    fleet.catch_up()
    assert fleet.counts() == expected(30)


def test_a_stop_of_an_older_epoch_stops_nobody(fleet: Fleet) -> None:
    fleet.catch_up()
    request_stop(fleet.log, "wordcount", "a-test", 1)
    send(fleet, 0, 30)
    with fleet.running() as (driver, _):
        wait_for(lambda: fleet.counts() == expected(30))
        assert driver.state is DriverState.RUNNING


def test_no_slot_that_lands_is_an_error_by_name(fleet: Fleet) -> None:
    driver, launcher = fleet.driver(patience=Patience(landing_seconds=0.5, stop_seconds=0.5))
    launcher.before = lambda order: launcher.cancelled[order.slot].wait(HANG_SECONDS)
    with pytest.raises(LogError) as error:
        driver.run()
    assert error.value.code == "no-landing"


def test_slots_on_other_machines_are_refused_where_the_log_lies_on_one(fleet: Fleet) -> None:
    driver, launcher = fleet.driver(machine="another")
    with pytest.raises(LogError) as error:
        driver.run()
    assert error.value.code == "log-on-one-machine"
    assert read_control(fleet.log, "wordcount").plan(ROLE).slots == []
    assert launcher.launched


def test_a_writer_of_the_last_plan_is_fenced_before_new_slots_open_tasks(fleet: Fleet) -> None:
    fleet.catch_up()
    [first, *_] = read_control(fleet.log, "wordcount").plan(ROLE).slots
    zombie = fleet.log.writer(first.writer)
    zombie.append(TopicPartition(COUNTS.name, 0), to_batch([Row(b"ghost", b"\x80" + bytes(7), 1)]))
    send(fleet, 0, 20)
    fleet.catch_up()
    with pytest.raises(FencedError):
        zombie.commit()
    assert fleet.counts() == expected(20)


def test_a_slot_of_an_older_attempt_does_nothing(fleet: Fleet) -> None:
    send(fleet, 0, 20)
    with fleet.running(slots=1) as (driver, launcher):
        wait_for(lambda: fleet.counts() == expected(20))
        old = launcher.launched[0]
        assert driver.claim is not None
        driver.claim.begin_attempt(old.slot, old.attempt + 1, 1)
        wait_for(lambda: len(launcher.launched) > 1)
        send(fleet, 20, 20)
        wait_for(lambda: fleet.counts() == expected(40))


def test_positions_and_topics_of_an_app_are_written_by_its_plan_before_any_slot_runs(fleet: Fleet) -> None:
    fleet.catch_up()
    assert names.status("wordcount") in fleet.log.names()
    assert read_control(fleet.log, "wordcount").epoch(ROLE) == 1
