"""A stop that was acknowledged ends the app, whatever the driver is doing at that time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.runtime.fleet import QUICK, Fleet, expected, send
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.driver.takeover import request_stop, take_over
from tidegate.runtime.topics.control import ROLE, read_control

pytestmark = pytest.mark.slow
APP = "wordcount"
ENDS_SECONDS = 30.0


def at_arrival(point: str, number: int, act: Callable[[], object], thread: str = "") -> Callable[[str], None]:
    """Acts when a thread comes to a point for the n-th time; once."""
    arrivals = 0

    def arrive(reached: str) -> None:
        nonlocal arrivals
        if reached == point and (not thread or threading.current_thread().name == thread):
            arrivals += 1
            if arrivals == number:
                act()

    return arrive


class BeforeTheEpoch:
    """Acts when the driver has read the control topic for its second epoch, and not yet written that."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._takeovers = 0
        self._armed = False

    def __call__(self, reached: str) -> None:
        if threading.current_thread().name != "the driver":
            return
        if reached == "driver.2":
            self._takeovers += 1
            self._armed = self._takeovers == 2
        elif reached == "log.commit.1" and self._armed:
            self._armed = False
            self._act()


@pytest.mark.parametrize("when", ["driver.2", "between", "driver.3", "driver.4", "driver.5"])
def test_a_stop_while_the_driver_renews_its_epoch_ends_the_app(fleet: Fleet, when: str) -> None:
    """Acknowledged for epoch 1 or 2, it is never outranked by the next epoch of the same driver."""
    patience = replace(QUICK, between_plans_seconds=0.2)
    driver, launcher = fleet.driver(None, patience=patience)
    launcher.rooms = 1
    named: list[int] = []

    def stop() -> None:
        named.append(request_stop(fleet.log, APP, "user", SystemClock().now()))

    hook = BeforeTheEpoch(stop) if when == "between" else at_arrival(when, 2, stop, "the driver")
    with installed(hook), fleet.during(driver, name="the driver"):
        wait_for(lambda: driver.state is DriverState.RUNNING)
        launcher.rooms = 2
        wait_for(lambda: bool(named), every=0.01)
        wait_for(lambda: driver.state is DriverState.STOPPED, ENDS_SECONDS)
    assert named == ([1] if when in ("driver.2", "between") else [2])
    send(fleet, 0, 20)
    fleet.catch_up()
    assert fleet.counts() == expected(20), "a stop of the past stops no later run"


def test_a_stop_of_the_user_is_not_overwritten_by_a_driver_that_read_before_it(fleet: Fleet) -> None:
    """The driver asks its slots to end for a new plan, and has not seen that the user asked for the end."""
    now = SystemClock().now()
    take_over(fleet.prepared(), APP, 1, SystemClock()).close()
    user = at_arrival("stop.2", 1, lambda: request_stop(fleet.log, APP, "user", now))
    with installed(user):
        request_stop(fleet.log, APP, "driver", now, 1, for_new_plan=True)
    stop = read_control(fleet.log, APP).stop(ROLE)
    assert (stop.epoch, stop.for_new_plan) == (1, False)


def test_a_stop_is_not_taken_back_to_an_older_epoch_by_a_driver_that_was_taken_over(fleet: Fleet) -> None:
    now = SystemClock().now()
    for _ in range(2):
        take_over(fleet.prepared(), APP, 1, SystemClock()).close()
    user = at_arrival("stop.2", 1, lambda: request_stop(fleet.log, APP, "user", now))
    with installed(user):
        request_stop(fleet.log, APP, "an older driver", now, 1)
    assert read_control(fleet.log, APP).stop(ROLE).epoch == 2


def test_stops_that_fence_each_other_for_ever_end_by_name(fleet: Fleet) -> None:
    log, stops = fleet.prepared(), f"{names.driver_id(APP, ROLE)}.stop"
    take_over(log, APP, 1, SystemClock()).close()

    def fence(point: str) -> None:
        if point == "stop.2":
            log.writer(stops).close()

    with installed(fence), pytest.raises(LogError) as error:
        request_stop(log, APP, "user", 1)
    assert (error.value.code, error.value.retryable) == ("stop-not-written", True)
