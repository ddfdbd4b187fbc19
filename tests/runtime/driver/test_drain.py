"""A stop that drains: nothing is left behind in internal topics, nothing is lost, and nothing is doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.fleet import Fleet
from tests.runtime.tills import APP, SECONDS, Shop, assert_each_sale_once, tills
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.errors import LogError
from tidegate.log.faultpoints import installed
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.driver.drain import Drained, drain_run
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import ROLE, Drain, read_control, write_control

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        yield Shop(Fleet(log, tmp_path, tills))


@pytest.mark.parametrize("slots", [1, 3])
def test_a_drained_app_has_one_event_for_each_record_that_it_took(shop: Shop, slots: int) -> None:
    shop.fleet.app = lambda: tills(seconds_each=0.001)
    with shop.selling(), shop.fleet.running(slots) as (driver, _):
        wait_for(lambda: len(shop.sold()) > 100)
        result = shop.drain()
        assert (result.ran, result.drained, result.left, result.slots) == (True, True, [], slots)
        wait_for(lambda: driver.state is DriverState.STOPPED)
        assert len(shop.taken()) < shop.sent, "sales went on meanwhile"
    assert result.wall is not None
    assert_each_sale_once(shop)
    shop.fleet.catch_up(slots)
    assert sorted(shop.sold()) == list(range(shop.sent)), "the next run continues with the rest"


def test_a_slot_that_reads_the_request_late_is_waited_for(shop: Shop) -> None:
    """Meanwhile all internal topics are read up to their ends. Then it writes to them what it has taken."""
    busy = threading.Event()

    def work(sale: int) -> None:
        if sale == 50:
            busy.set()
            time.sleep(2.5)

    shop.fleet.app = lambda: tills(before=work)
    with shop.fleet.running(2):
        wait_for(lambda: len(shop.sold()) == 50)
        wait_for(shop.still)
        shop.sell(1)
        wait_for(busy.is_set)
        result = shop.drain()
    assert result.drained
    assert_each_sale_once(shop)


def test_slots_go_on_by_themselves_if_whoever_requested_the_drain_died(shop: Shop) -> None:
    clock = SystemClock()
    with shop.fleet.running() as (driver, _):
        wait_for(lambda: len(shop.sold()) == 50)
        until = clock.now() + 10_000
        with closing(shop.log.writer("the dead")) as writer:
            entry = Drain(driver.epoch, until, clock.now())
            write_control(writer, APP, {f"drain/{ROLE}": entry}, clock.now())
            writer.commit()
        wait_for(lambda: [one.rests_until for one in driver.overview.numbers.values()] == [until] * 2)
        shop.sell(20)
        while True:
            sold = len(shop.sold())
            if clock.now() >= until:
                break
            assert sold == 50
            time.sleep(0.05)
        wait_for(lambda: len(shop.sold()) == 70)
        assert driver.state is DriverState.RUNNING


def test_a_drain_of_an_earlier_run_holds_no_later_one(shop: Shop) -> None:
    with shop.fleet.running():
        wait_for(lambda: len(shop.sold()) == 50)
        assert shop.drain().drained
    shop.sell(10)
    shop.fleet.catch_up()
    assert read_control(shop.log, APP).drain(ROLE).until > SystemClock().now()
    assert sorted(shop.sold()) == list(range(60))


@pytest.mark.parametrize("point", ["commit.2", "commit.5", "commit.6"])
def test_a_slot_that_is_lost_while_it_drains_is_restarted_and_still_drains(shop: Shop, point: str) -> None:
    shop.fleet.app = lambda: tills(seconds_each=0.002)
    lost: list[str] = []
    draining = threading.Event()

    def lose(reached: str) -> None:
        name = threading.current_thread().name
        if reached == point and name == "tidegate-slot-1" and not lost and draining.is_set():
            lost.append(name)
            raise RuntimeError("lost")
        if reached == "drain.3":
            draining.set()

    with installed(lose), shop.selling(), shop.fleet.running(2) as (_, launcher):
        wait_for(lambda: len(shop.sold()) > 20)
        result = shop.drain()
    assert (result.drained, result.left) == (True, [])
    assert [order.attempt for order in launcher.launched if order.slot == 1] == [1, 2]
    assert_each_sale_once(shop)


def test_a_run_that_was_killed_is_reported_with_what_it_left(shop: Shop) -> None:
    shop.fleet.app = lambda: tills(seconds_each=0.01)
    kill(shop, 3)
    result = shop.drain()
    assert (result.ran, result.drained, result.slots, result.wall) == (False, False, 0, None)
    assert result.left, "some sales were taken and not processed"
    assert all(one.topic in shop.manifest.internal.values() for one in result.left)
    assert sum(one.end - one.position for one in result.left) == shop.left() > 0
    while result.left:  # a slot may send its stream time with its last commit, which nobody reads then
        shop.fleet.catch_up()
        result = shop.drain()
    assert result == Drained(ran=False, drained=True, left=[])


def kill(shop: Shop, events: int) -> None:
    """Run until some events were written, then fence everything: as a driver that is killed, it writes no
    stop."""
    driver, _ = shop.fleet.driver(2)
    with shop.fleet.during(driver):
        wait_for(lambda: len(shop.sold()) > events, every=0.001)
        take_over(shop.log, APP, 1, SystemClock()).close()
        wait_for(lambda: driver.state is DriverState.FAILED)


def test_an_app_that_never_ran_has_nothing_to_drain(shop: Shop) -> None:
    shop.fleet.prepared()
    assert shop.drain() == Drained(ran=False, drained=True, left=[])


def test_when_the_time_is_up_the_app_is_stopped_and_what_is_left_is_returned(shop: Shop) -> None:
    shop.fleet.app = lambda: tills(seconds_each=0.02)
    shop.sell(200)
    with shop.fleet.running(2) as (driver, _):
        wait_for(lambda: len(shop.sold()) > 3)
        result = shop.drain(seconds=1.0)
        wait_for(lambda: driver.state is DriverState.STOPPED)
    assert (result.ran, result.drained, result.wall) == (True, False, None)
    assert sum(one.end - one.position for one in result.left) > 0


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_a_log_that_does_not_answer_for_a_moment_is_waited_for(shop: Shop, step: int) -> None:
    """At each step the next call of the log fails once."""
    failed: list[str] = []
    log: Any = Unreachable(shop.log, failed)

    def fail(reached: str) -> None:
        if reached == f"drain.{step}" and not failed:
            log.fails = True

    with shop.fleet.running(2), installed(fail):
        wait_for(lambda: len(shop.sold()) == 50)
        result = drain_run(log, shop.manifest, "test", SystemClock(), SECONDS)
    assert failed
    assert result.drained
    assert_each_sale_once(shop)


class Unreachable:
    """A log of which one call fails, as one that does not answer for a short time."""

    def __init__(self, log: Log, failed: list[str]) -> None:
        self._log = log
        self._failed = failed
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if self.fails:
                self.fails = False
                self._failed.append(name)
                raise LogError("log-unreachable", "no answer", "wait", retryable=True)
            return found(*arguments, **options)

        return call if callable(found) else found
