"""Restore, step 3: an end that shows late, as that of a broker does; tests/kafka has a real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.state.bench import AT_EVERY_TURN, Bench
from tests.state.lagging import LaggingLog
from tests.state.lives import COUNTS

from tidegate.clock import ManualClock
from tidegate.errors import StateError
from tidegate.types import TopicPartition


def lagging(folder: Path) -> tuple[Bench, LaggingLog]:
    clock = ManualClock()
    log = LaggingLog(clock=clock, upkeep=False)
    return Bench(folder, log, clock), log


def test_a_restore_waits_for_a_committed_end_that_is_short_of_the_position(folder: Path) -> None:
    bench, log = lagging(folder)
    task = bench.start(COUNTS, host="a")
    for number in range(10):
        task.put(COUNTS, f"key-{number}", number)
    task.commit()
    at = bench.position()
    log.hide(bench.changelog_of(COUNTS), above=4, polls=4)
    assert bench.log.ends([bench.changelog_of(COUNTS)])[bench.changelog_of(COUNTS)] == 4
    moved = bench.open(COUNTS, host="b", at=at)
    turns = [moved.restore.step()]
    assert moved.restore.waiting_for == {bench.changelog_of(COUNTS): 10}
    while not turns[-1]:
        turns.append(moved.restore.step())
    assert turns == [False, False, False, False, True]
    assert moved.rows(COUNTS) == bench.fold(COUNTS)
    assert [event[3:] for event in moved.listener.events if event[0] == "batch"] == [(4, 4), (10, 6)]
    bench.close()


def test_a_position_behind_another_writers_open_transaction_is_waited_for(folder: Path) -> None:
    """A committed reader that took the end for the end would find the position before the last."""
    bench, log = lagging(folder)
    task = bench.start(COUNTS, host="a")
    for number in range(3):
        task.put(COUNTS, "ada", number)
        task.commit()
    positions = TopicPartition("shop-positions", 0)
    log.hide(positions, above=int(bench.log.ends([positions])[positions]) - 2, polls=5)
    moved = bench.start(COUNTS, host="b")
    assert moved.offset == 3
    assert moved.rows(COUNTS) == {"ada": 2}
    bench.close()


def test_an_end_that_never_comes_is_an_error_by_name_and_a_later_try_goes_on(folder: Path) -> None:
    bench, log = lagging(folder)
    task = bench.start(COUNTS, host="a")
    for number in range(10):
        task.put(COUNTS, f"key-{number}", number)
    task.commit()
    at = bench.position()
    log.hide(bench.changelog_of(COUNTS), above=4, polls=1 << 30)
    moved = bench.open(COUNTS, host="b", at=at, limits=AT_EVERY_TURN)
    with pytest.raises(StateError) as error:
        moved.restore.run(patience=0.05)
    assert (error.value.code, error.value.retryable) == ("restore-waits", True)
    assert moved.listener.events[-1] == ("suspended", "counts", 0, 4)
    log.hide(bench.changelog_of(COUNTS), above=4, polls=0)
    again = bench.start(COUNTS, host="b")
    assert again.listener.span("counts") == (4, 10)
    assert again.rows(COUNTS) == bench.fold(COUNTS)
    bench.close()
