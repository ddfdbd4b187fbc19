"""Followers: how they fail, go on and end; and which of them a pool evicts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.errors import LogError, TidegateError
from tidegate.server.follower import Follower
from tidegate.server.follower_pool import FollowerPool, PoolSize

DOWN = LogError("log-unavailable", "the log does not answer", retryable=True)

NO_ROOM = LogError("map-full", "the replica needs a larger map")
"""One after which the recovery fails, too."""


class Counting(Follower):
    """Follows nothing: calls `step` until it returns False."""

    retry_seconds = 0.0

    def __init__(self, step: Callable[[int], bool] = lambda _: True) -> None:
        super().__init__("nothing", "tidegate-test-follower")
        self.calls = 0
        self._step = step
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(0.001):
            self.calls += 1
            if not self._step(self.calls):
                return
            with self._changed:
                self._clear_trouble()
                self._changed.notify_all()

    def _progress(self) -> str:
        return f"at {self.calls}"

    def _recover(self, error: TidegateError) -> bool:
        if error is NO_ROOM:
            raise OSError("no space left on device")
        return error.code == "map-full"

    def reach(self, calls: int, seconds: float) -> int:
        with self._changed:
            if not self._wait(lambda: self.calls >= calls, time.monotonic() + seconds):
                raise self._behind()
            return self.calls


def raising(error: Exception, *, times: int) -> Callable[[int], bool]:
    def step(call: int) -> bool:
        if call <= times:
            raise error
        return True

    return step


def test_a_follower_goes_on_after_more_failures_than_a_float_has_powers_of_two() -> None:
    with closing(Counting(raising(DOWN, times=1_100))) as follower:
        wait_for(lambda: not follower._thread.is_alive() or follower.calls > 1_100)
        assert follower._thread.is_alive()
        wait_for(lambda: follower.trouble is None)


def test_an_error_is_reported_until_it_is_over() -> None:
    over = threading.Event()

    def step(_: int) -> bool:
        if not over.is_set():
            raise DOWN
        return True

    with closing(Counting(step)) as follower:
        wait_for(lambda: follower.trouble is DOWN)
        with pytest.raises(LogError, match="log-unavailable"):
            follower.reach(10**9, 0.01)
        over.set()
        wait_for(lambda: follower.trouble is None)
        with pytest.raises(LogError, match=r"replica-behind\] at \d"):
            follower.reach(10**9, 0.01)


def test_a_recovery_that_fails_is_reported_and_tried_again() -> None:
    with closing(Counting(raising(NO_ROOM, times=3))) as follower:
        wait_for(lambda: not follower._thread.is_alive() or follower.calls > 3)
        assert follower._thread.is_alive()
        wait_for(lambda: follower.trouble is None)
    with closing(Counting(raising(NO_ROOM, times=10**9))) as follower:
        wait_for(lambda: follower.trouble is not None)
        assert "nothing cannot be followed: OSError" in str(follower.trouble)


def test_a_bug_is_reported_with_the_name_of_what_is_followed() -> None:
    with closing(Counting(raising(ZeroDivisionError("oh"), times=10**9))) as follower:
        wait_for(lambda: follower.trouble is not None)
        with pytest.raises(LogError, match=r"replica-failed\] nothing cannot be followed: ZeroDivisionError"):
            follower.reach(10**9, 0.01)


def test_an_error_that_a_follower_adapts_to_is_not_reported() -> None:
    with closing(Counting(raising(LogError("map-full", "the map is full"), times=3))) as follower:
        assert follower.reach(10, HANG_SECONDS) >= 10
        assert follower._failures == 0


def test_a_waiting_call_is_woken_when_the_follower_ends() -> None:
    follower = Counting()
    codes: list[str] = []

    def wait() -> None:
        try:
            follower.reach(10**9, 10 * HANG_SECONDS)
        except LogError as error:
            codes.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    follower.close()
    follower.close()
    thread.join(HANG_SECONDS)
    assert codes == ["server-ends"]


def test_a_call_that_waits_for_an_evicted_follower_may_try_again_on_this_server() -> None:
    follower = Counting()
    follower.evict()
    with closing(follower), pytest.raises(LogError, match=r"replica-behind\] nothing was evicted"):
        follower.reach(10**9, HANG_SECONDS)


@pytest.fixture
def pool() -> Iterator[FollowerPool[Counting]]:
    with closing(FollowerPool[Counting](PoolSize(soft_limit=2, hard_limit=4, unused_seconds=300.0))) as made:
        yield made


def test_a_pool_creates_a_follower_once(pool: FollowerPool[Counting]) -> None:
    assert pool.get("a", Counting) is pool.get("a", Counting)


def test_followers_in_use_are_kept_up_to_the_limit(pool: FollowerPool[Counting]) -> None:
    followers = {name: pool.get(name, Counting) for name in "abcd"}
    followers["a"].used = time.monotonic()
    pool.get("e", Counting)
    assert list(pool.by_name()) == ["a", "c", "d", "e"]
    assert not followers["b"]._thread.is_alive()


def test_all_unused_followers_above_the_target_are_evicted(pool: FollowerPool[Counting]) -> None:
    for follower in [pool.get(name, Counting) for name in "abcd"]:
        follower.used -= 400
    pool.get("e", Counting)
    assert list(pool.by_name()) == ["d", "e"]


def test_a_follower_that_cannot_be_created_evicts_none(pool: FollowerPool[Counting]) -> None:
    def broken() -> Counting:
        raise DOWN

    for follower in [pool.get(name, Counting) for name in "abcd"]:
        follower.used -= 400
    with pytest.raises(LogError, match="log-unavailable"):
        pool.get("e", broken)
    assert list(pool.by_name()) == ["a", "b", "c", "d"]


def test_an_ended_pool_refuses_calls(pool: FollowerPool[Counting]) -> None:
    follower = pool.get("a", Counting)
    pool.end()
    with pytest.raises(LogError, match="server-ends"):
        pool.get("a", Counting)
    pool.close()
    assert not follower._thread.is_alive()
