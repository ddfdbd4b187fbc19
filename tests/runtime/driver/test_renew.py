"""A driver that plans again while its writer is not its own any more."""

from __future__ import annotations

import threading

import pytest
from tests.runtime.fleet import Fleet, expected, send
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.errors import FencedError, LogError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.slot_order import SlotOrder

CLOCK = SystemClock()


def test_a_writer_that_was_lost_to_nobody_is_regained(fleet: Fleet) -> None:
    """As after idle days on Kafka, when the broker has forgotten the id: refused, and no epoch is higher."""
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    log.writer(names.driver_id("wordcount", ROLE)).close()
    renewed = claim.renew(log, CLOCK)
    assert renewed.epoch == claim.epoch + 1
    assert read_control(log, "wordcount").epoch(ROLE) == renewed.epoch
    renewed.begin_attempt(0, 1, CLOCK.now())
    renewed.close()


def test_a_writer_that_another_driver_has_stays_lost(fleet: Fleet) -> None:
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    other = take_over(log, "wordcount", 1, CLOCK)
    with pytest.raises(FencedError):
        claim.renew(log, CLOCK)
    assert read_control(log, "wordcount").epoch(ROLE) == other.epoch
    other.begin_attempt(0, 1, CLOCK.now())
    claim.close()
    other.close()


def test_a_writer_that_failed_for_a_slot_is_regained(fleet: Fleet) -> None:
    """The slot's thread left because the term was over, before it had opened the writer again."""
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    claim.writer.close()
    renewed = claim.renew(log, CLOCK)
    assert (renewed.epoch, read_control(log, "wordcount").epoch(ROLE)) == (2, 2)
    renewed.begin_attempt(0, 1, CLOCK.now())
    renewed.close()


@pytest.mark.parametrize("code", ["unreachable", "commit-unknown"])
def test_an_epoch_that_the_log_did_not_take_is_raised_again(fleet: Fleet, code: str) -> None:
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    with installed(Fault("driver.2", "log.commit.1", code)):
        renewed = claim.renew(log, CLOCK)
    assert (renewed.epoch, read_control(log, "wordcount").epoch(ROLE)) == (2, 2)
    renewed.begin_attempt(0, 1, CLOCK.now())
    renewed.close()


def test_an_error_that_stays_ends_a_new_plan(fleet: Fleet) -> None:
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    with installed(Fault("driver.2", "log.commit.1", "not-allowed")), pytest.raises(LogError) as error:
        claim.renew(log, CLOCK)
    assert error.value.code == "not-allowed"
    claim.close()


def test_a_plan_is_written_where_the_writer_failed_for_a_slot(fleet: Fleet) -> None:
    send(fleet, 0, 10)
    driver, launcher = fleet.driver(1)

    def spend(order: SlotOrder) -> None:
        if order.attempt == 1:
            assert driver.claim is not None
            driver.claim.writer.close()

    launcher.before = spend
    with fleet.during(driver):
        wait_for(lambda: fleet.counts() == expected(10) or driver.error is not None)
        assert (driver.error, driver.state, driver.epoch) == (None, DriverState.RUNNING, 1)


def test_a_plan_that_nobody_confirmed_is_not_written_twice(fleet: Fleet) -> None:
    """It brings first positions: slots that began with them may have moved on."""
    send(fleet, 0, 10)
    fault = Fault("driver.5", "log.commit.8", "commit-unknown")
    driver, _ = fleet.driver(1)
    with installed(fault), fleet.during(driver):
        wait_for(lambda: fleet.counts() == expected(10) or driver.error is not None)
        assert (driver.error, driver.epoch, fault.armed) == (None, 1, 1)


class Fault:
    """An error of the log at one point, the first time that it is reached behind another one."""

    def __init__(self, behind: str, point: str, code: str) -> None:
        self._behind = behind
        self._point = point
        self._error = LogError(code, "a test made this", "nothing", retryable=code == "unreachable")
        self._thread = 0
        self.armed = 0
        """How often the first of the two points was reached."""

    def __call__(self, point: str) -> None:
        here = threading.get_ident()
        if point == self._behind:
            self.armed += 1
            self._thread = here if self.armed == 1 else 0
        elif point == self._point and self._thread == here:
            self._thread = 0
            raise self._error
