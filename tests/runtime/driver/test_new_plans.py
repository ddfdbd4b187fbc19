"""A driver that makes a new plan, and how a run ends, whatever it is doing."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from tests.runtime.fleet import QUICK, Fleet, expected, send
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.clock import SystemClock
from tidegate.errors import FencedError, LogError
from tidegate.log.faultpoints import installed
from tidegate.runtime.driver.coordinator import Coordinator, DriverState
from tidegate.runtime.driver.takeover import request_stop, take_over
from tidegate.runtime.slot.job import SlotIntervals
from tidegate.runtime.topics.control import ROLE, Stop, read_control
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Landing, Numbers, publish_status

pytestmark = pytest.mark.slow
GONE_SECONDS = 3.0
"""Thirty beats of a slot that lives."""


def silent(driver: Coordinator, slot: int) -> bool:
    return time.monotonic() - driver.overview.last_report[slot] > GONE_SECONDS


def test_a_slot_that_is_gone_for_good_leaves_its_tasks_to_the_others(fleet: Fleet) -> None:
    """Its host is lost: the job waits for a core that never comes."""
    send(fleet, 0, 30)
    patience = replace(QUICK, gone_seconds=GONE_SECONDS, new_plan_stop_seconds=2)
    with fleet.running(slots=3, patience=patience) as (driver, launcher):
        wait_for(lambda: fleet.counts() == expected(30))
        lost = threading.Event()

        def wait_for_ever(order: SlotOrder) -> None:
            if order.slot == 2 and order.epoch == 1 and order.attempt > 1:
                lost.wait(HANG_SECONDS)
                raise InterruptedError("no core")

        launcher.before = wait_for_ever
        launcher.rooms = 1
        assert driver.claim is not None
        driver.claim.begin_attempt(2, 2, 1)  # its job ends, and the next one never begins
        wait_for(lambda: driver.epoch == 2 and driver.state is DriverState.RUNNING)
        send(fleet, 30, 30)
        wait_for(lambda: fleet.counts() == expected(60))
        plan = read_control(fleet.log, "wordcount").plan(ROLE)
        assert (plan.epoch, len(plan.slots), driver.overview.plans) == (2, 2, 2)
        assert sorted(task.partition for slot in plan.slots for task in slot.tasks) == [0, 0, 1, 1, 2, 2]
        lost.set()
        launcher.rooms = 3
        send(fleet, 60, 30)
        wait_for(lambda: fleet.counts() == expected(90))
        assert driver.state is DriverState.RUNNING


def test_room_for_more_slots_is_taken_though_seldom(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    patience = replace(QUICK, between_plans_seconds=1.0)
    driver, launcher = fleet.driver(None, patience=patience)
    launcher.rooms = 1
    with fleet.during(driver):
        wait_for(lambda: fleet.counts() == expected(30))
        assert len(read_control(fleet.log, "wordcount").plan(ROLE).slots) == 1
        launcher.rooms = 3
        wait_for(lambda: driver.epoch == 2 and driver.state is DriverState.RUNNING)
        wait_for(lambda: len(read_control(fleet.log, "wordcount").plan(ROLE).slots) == 3)
        send(fleet, 30, 30)
        wait_for(lambda: fleet.counts() == expected(60))
        launcher.rooms = 1
        send(fleet, 60, 30)
        wait_for(lambda: fleet.counts() == expected(90))
        assert (driver.epoch, driver.overview.plans) == (2, 2), "slots that run stay where they are"
    assert driver.state is DriverState.STOPPED


@pytest.mark.parametrize("large", [300, 301])
def test_a_large_restore_is_saved_by_a_new_plan(fleet: Fleet, large: int) -> None:
    """Two hosts went and came back, and each slot is on the other's. Slots report nothing themselves here."""
    send(fleet, 0, 30)
    patience = replace(QUICK, between_plans_seconds=0.1, large_restore=large)
    driver, launcher = fleet.driver(2, patience=patience)
    launcher.intervals = SlotIntervals(report_seconds=HANG_SECONDS)
    with fleet.during(driver):
        wait_for(lambda: fleet.counts() == expected(30))
        plan = read_control(fleet.log, "wordcount").plan(ROLE)
        for slot, other in (plan.slots, plan.slots[::-1]):
            folders = {str(task): 50 for task in other.tasks}
            moved = Landing(1, slot.slot, 2, f"host-{other.slot}", 1, "m", folders)
            publish_status(fleet.log, "wordcount", moved, 1)
            numbers = Numbers(1, slot.slot, 1, 0, 0.0, 0, 0, 0, restoring=3, restored=10, to_restore=1000)
            publish_status(fleet.log, "wordcount", numbers, 1)
        wait_for(lambda: len(driver.overview.numbers) == 2 or driver.epoch == 2)
        if large == 300:
            wait_for(lambda: driver.epoch == 2 and driver.state is DriverState.RUNNING)
            assert len(read_control(fleet.log, "wordcount").plan(ROLE).slots) == 2
        else:
            before = launcher.asked_for_room
            wait_for(lambda: launcher.asked_for_room >= before + 2)
            assert driver.epoch == 1
        send(fleet, 30, 30)
        wait_for(lambda: fleet.counts() == expected(60))


def test_a_driver_that_was_taken_over_during_a_new_plan_ends(fleet: Fleet) -> None:
    driver, launcher = fleet.driver(None, patience=replace(QUICK, between_plans_seconds=0.2))
    launcher.rooms = 1
    with fleet.during(driver):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        claim = take_over(fleet.log, "wordcount", 1, SystemClock())
        launcher.rooms = 2
        wait_for(lambda: driver.state is DriverState.FAILED)
        assert isinstance(driver.error, FencedError)
        assert read_control(fleet.log, "wordcount").epoch(ROLE) == claim.epoch
        claim.close()


def test_slots_that_the_driver_cancels_are_no_failures(fleet: Fleet) -> None:
    """A host with most of the slots is lost: more than the budget allows to fail."""
    send(fleet, 0, 30)
    patience = replace(QUICK, gone_seconds=GONE_SECONDS, new_plan_stop_seconds=0.5)
    driver, launcher = fleet.driver(6, patience=patience)
    launcher.rooms = 6
    with fleet.during(driver):
        wait_for(lambda: fleet.counts() == expected(30))

        def wait_for_ever(order: SlotOrder) -> None:
            if order.slot and order.epoch == 1 and order.attempt > 1:
                launcher.cancelled[order.slot].wait(HANG_SECONDS)
                raise InterruptedError("cancelled")

        launcher.before = wait_for_ever
        assert driver.claim is not None
        for slot in range(1, 6):
            driver.claim.begin_attempt(slot, 2, 1)
        wait_for(lambda: all(silent(driver, slot) for slot in range(1, 6)))
        launcher.rooms = 1
        wait_for(lambda: driver.epoch == 2 and driver.state is DriverState.RUNNING)
        send(fleet, 30, 30)
        wait_for(lambda: fleet.counts() == expected(60))
        assert len(read_control(fleet.log, "wordcount").plan(ROLE).slots) == 1
        assert list(driver.overview.failures) == []


def test_cores_that_another_app_uses_are_requested_once(fleet: Fleet) -> None:
    patience = replace(QUICK, landing_seconds=4, between_plans_seconds=0.1)
    driver, launcher = fleet.driver(None, patience=patience)
    launcher.rooms = 3
    launcher.before = lambda order: order.slot == 2 and launcher.cancelled[2].wait(HANG_SECONDS)
    with fleet.during(driver):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        before = launcher.asked_for_room
        wait_for(lambda: launcher.asked_for_room >= before + 3)
        assert (driver.epoch, driver.overview.plans, driver.state) == (1, 1, DriverState.RUNNING)


def test_a_stop_of_the_user_is_not_taken_for_that_of_a_new_plan(fleet: Fleet) -> None:
    app, now = "wordcount", SystemClock().now()
    take_over(fleet.prepared(), app, 1, SystemClock()).close()
    request_stop(fleet.log, app, "driver", now, 1, for_new_plan=True)
    assert read_control(fleet.log, app).stop(ROLE) == Stop(1, for_new_plan=True, by="driver")
    request_stop(fleet.log, app, "user", now)
    assert read_control(fleet.log, app).stop(ROLE) == Stop(1, by="user")
    request_stop(fleet.log, app, "driver", now, 1, for_new_plan=True)
    assert read_control(fleet.log, app).stop(ROLE) == Stop(1, by="user")


def test_a_stop_in_the_middle_of_a_new_plan_ends_the_app(fleet: Fleet) -> None:
    """The new plan waits for a slot, which ends only after the user asked for the end of all."""
    patience = replace(QUICK, gone_seconds=GONE_SECONDS, new_plan_stop_seconds=HANG_SECONDS)
    with fleet.running(slots=2, patience=patience) as (driver, launcher):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        waits, requested = threading.Event(), threading.Event()

        def wait_for_the_user(order: SlotOrder) -> None:
            if order.slot == 1 and order.attempt > 1:
                waits.set()
                requested.wait(HANG_SECONDS)
                raise InterruptedError("cancelled")

        launcher.before = wait_for_the_user
        assert driver.claim is not None
        driver.claim.begin_attempt(1, 2, 1)
        wait_for(waits.is_set)
        launcher.rooms = 0
        wait_for(lambda: read_control(fleet.log, "wordcount").stop(ROLE).for_new_plan)
        request_stop(fleet.log, "wordcount", "user", SystemClock().now())
        requested.set()
        wait_for(lambda: driver.state is DriverState.STOPPED)
        assert driver.epoch == 1


def test_a_stop_while_slots_land_ends_the_app_at_once(fleet: Fleet) -> None:
    driver, launcher = fleet.driver(
        2, patience=replace(QUICK, landing_seconds=HANG_SECONDS, stop_seconds=0.5)
    )
    launcher.before = lambda order: order.slot == 1 and launcher.cancelled[1].wait(HANG_SECONDS)
    with fleet.during(driver):
        wait_for(lambda: len(driver.overview.landings) == 1)
        request_stop(fleet.log, "wordcount", "user", SystemClock().now())
        wait_for(lambda: driver.state is DriverState.STOPPED, HANG_SECONDS / 2)


def test_a_log_that_fails_leaves_no_slot_without_a_driver(fleet: Fleet) -> None:
    failing = threading.Event()
    driving = threading.current_thread

    def fail(point: str) -> None:
        if failing.is_set() and point.startswith("log.commit") and driving().name == "the driver":
            raise LogError("disk-failed", "the disk failed", "mend it")

    driver, launcher = fleet.driver(2, patience=replace(QUICK, stop_seconds=0.5))
    with installed(fail), fleet.during(driver, name="the driver"):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        failing.set()
        driver.stop()
        wait_for(lambda: driver.state is DriverState.STOPPED)
        assert launcher.cancelled
        assert all(one.is_set() for one in launcher.cancelled.values())
        wait_for(lambda: not any(thread.name.startswith("tidegate-slot") for thread in threading.enumerate()))


def test_a_stop_does_not_wait_for_a_long_commit_interval(fleet: Fleet) -> None:
    fleet.commit_interval_ms = 600_000
    send(fleet, 0, 30)
    with fleet.running(slots=1) as (driver, launcher):
        wait_for(lambda: sum(one.records for one in driver.overview.numbers.values()) >= 31)
        assert fleet.counts() == {}
    assert not launcher.cancelled[0].is_set(), "it came to its end by itself"
    assert driver.state is DriverState.STOPPED
    fleet.commit_interval_ms = 20
    fleet.catch_up()
    assert fleet.counts() == expected(30)
