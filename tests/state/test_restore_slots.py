"""After any failure every task of the slot is dropped, and comes back as the log has it: I2, I3, I6."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.state.bench import OUT, SELDOM, Bench
from tests.state.faults import Failure, failing_at
from tests.state.lives import COUNTS

from tidegate.errors import FencedError, LogError
from tidegate.log.faultpoints import installed
from tidegate.types import TopicPartition


def test_i3_no_aborted_write_survives_three_log_commits_without_a_store_commit(bench: Bench) -> None:
    slot = bench.slot()
    task = slot.start(COUNTS, limits=SELDOM)
    for number in (1, 2, 3):
        task.put(COUNTS, "ada", number)
        task.put(COUNTS, f"key-{number}", number)
        slot.commit()
    task.put(COUNTS, "ada", 4)
    task.put(COUNTS, "ghost", 4)
    task.delete(COUNTS, "key-1")
    with pytest.raises(Failure), installed(failing_at("commit.5")):
        slot.commit()
    slot.writer.abort()
    slot.drop()
    again = bench.start(COUNTS)
    assert bench.span(again, COUNTS) == (0, 6), "the store had nothing on disk"
    assert again.rows(COUNTS) == {"ada": 3, "key-1": 1, "key-2": 2, "key-3": 3} == bench.fold(COUNTS)
    assert again.offset == 6


@pytest.mark.parametrize("step", [f"commit.{number}" for number in range(1, 9)])
def test_i2_a_slot_that_fails_in_any_step_has_its_effects_once_or_not_at_all(bench: Bench, step: str) -> None:
    slot = bench.slot()
    task = slot.start(COUNTS, limits=SELDOM)
    task.put(COUNTS, "ada", 1)
    slot.commit()
    task.put(COUNTS, "ada", 2)
    task.emit(b"ada", b"two")
    with pytest.raises(Failure), installed(failing_at(step)):
        slot.commit()
    slot.drop()
    again = bench.start(COUNTS)
    took = step in ("commit.6", "commit.7", "commit.8")
    assert again.rows(COUNTS) == {"ada": 2 if took else 1} == bench.fold(COUNTS)
    assert bench.records(TopicPartition(OUT, 0)) == ([(b"ada", b"two")] if took else [])
    assert again.offset == (3 if took else 1)


def test_one_failing_task_takes_the_others_of_its_slot_along(open_bench: Callable[..., Bench]) -> None:
    """They share a transaction: the effects of one cannot stay without those of the other."""
    bench = open_bench(partitions=2)
    slot = bench.slot()
    healthy = slot.start(COUNTS, partition=0, limits=SELDOM)
    failing = slot.start(COUNTS, partition=1, limits=SELDOM)
    for task in (healthy, failing):
        task.put(COUNTS, "ada", 1)
    slot.commit()
    for task in (healthy, failing):
        task.put(COUNTS, "ada", 2)
        task.emit(b"ada", b"2")
    failing.emit(b"ada", b"more than the topic takes" * 100_000)
    with pytest.raises(LogError) as error:
        slot.commit()
    assert error.value.code == "record-too-large"
    slot.writer.close()
    slot.drop()
    again = bench.slot()
    for partition in (0, 1):
        task = again.start(COUNTS, partition=partition)
        assert task.rows(COUNTS) == {"ada": 1} == bench.fold(COUNTS, partition)
        assert task.offset == 1
        assert bench.records(TopicPartition(OUT, partition)) == []


def test_a_task_that_fails_after_the_log_commit_loses_nothing_of_the_other_task(
    open_bench: Callable[..., Bench],
) -> None:
    """Step 6 of the first task is done, that of the second is not: the log has both."""
    bench = open_bench(partitions=2)
    slot = bench.slot()
    tasks = [slot.start(COUNTS, partition=partition, limits=SELDOM) for partition in (0, 1)]
    for task in tasks:
        task.put(COUNTS, "ada", 1)
    with pytest.raises(Failure), installed(failing_at("commit.6", number=2)):
        slot.commit()
    slot.drop()
    again = bench.slot()
    for partition in (0, 1):
        task = again.start(COUNTS, partition=partition)
        assert task.rows(COUNTS) == {"ada": 1} == bench.fold(COUNTS, partition)
        assert task.offset == 1


def test_i8_a_fenced_slot_leaves_nothing(bench: Bench) -> None:
    old = bench.slot()
    task = old.start(COUNTS, limits=SELDOM)
    task.put(COUNTS, "ada", 1)
    old.commit()
    task.put(COUNTS, "ghost", 2)
    new = bench.slot()
    with pytest.raises(FencedError):
        old.commit()
    old.drop()
    assert new.start(COUNTS).rows(COUNTS) == {"ada": 1} == bench.fold(COUNTS)
