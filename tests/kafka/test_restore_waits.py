"""Restore, step 3, behind a real open transaction: tests/state has the same with a log that only lags."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from tests.kafka.bench import KafkaBench
from tests.state.bench import AT_EVERY_TURN, Task
from tests.state.lives import COUNTS

from tidegate.errors import StateError
from tidegate.log.protocol import Writer
from tidegate.log.records import Row, to_batch
from tidegate.types import TopicPartition

POSITIONS = TopicPartition("shop-positions", 0)


def write(task: Task, first: int, last: int) -> None:
    for number in range(first, last):
        task.put(COUNTS, f"key-{number}", number)
    task.commit()


def stand_in_front(bench: KafkaBench, partition: TopicPartition) -> Writer:
    """Another writer's transaction: it holds an offset, and everything behind it is hidden."""
    writer = bench.log.writer("foreign")
    writer.append(partition, to_batch([Row(b"ghost", b"", 5)]))
    writer.flush([partition])
    return writer


def test_a_restore_waits_for_a_committed_end_that_is_short_of_the_position(bench: KafkaBench) -> None:
    task, changelog = bench.start(COUNTS, host="a"), bench.changelog_of(COUNTS)
    write(task, 0, 4)
    with closing(stand_in_front(bench, changelog)) as foreign:
        write(task, 4, 10)
        at = bench.position()
        moved = bench.open(COUNTS, host="b", at=at)
        while moved.listener.restored("counts") < 4:
            assert not moved.restore.step()
        assert not any(moved.restore.step() for _ in range(20)), "what is hidden is waited for"
        assert moved.restore.waiting_for == {changelog: at.changelogs["counts"]}
        foreign.abort()
        moved.restore.run()
    assert moved.rows(COUNTS) == bench.fold(COUNTS) == {f"key-{number}": number for number in range(10)}
    assert moved.listener.restored("counts") == 10, "and nothing of what was aborted"


def test_an_end_that_never_comes_is_an_error_by_name_and_a_later_try_goes_on(bench: KafkaBench) -> None:
    task = bench.start(COUNTS, host="a")
    write(task, 0, 4)
    with closing(stand_in_front(bench, bench.changelog_of(COUNTS))):
        write(task, 4, 10)
        moved = bench.open(COUNTS, host="b", limits=AT_EVERY_TURN)
        while moved.listener.restored("counts") < 4:
            assert not moved.restore.step()
        with pytest.raises(StateError) as error:
            moved.restore.run(patience=1)
        assert (error.value.code, error.value.retryable) == ("restore-waits", True)
        assert moved.listener.events[-1] == ("suspended", "counts", 0, 4)
    again = bench.start(COUNTS, host="b")
    assert again.listener.restored("counts") == 6
    assert again.rows(COUNTS) == bench.fold(COUNTS)


def test_a_position_behind_another_writers_open_transaction_is_waited_for(bench: KafkaBench) -> None:
    """A committed reader that took the end for the end would find the position before the last."""
    task = bench.start(COUNTS, host="a")
    write(task, 0, 1)
    with closing(stand_in_front(bench, POSITIONS)) as foreign:
        write(task, 1, 3)
        released = threading.Timer(1, foreign.abort)
        released.start()
        moved = bench.start(COUNTS, host="b")
        assert released.finished.is_set()
        released.join()
    assert moved.offset == 3
    assert moved.rows(COUNTS) == {"key-0": 0, "key-1": 1, "key-2": 2}


def test_a_slot_that_died_in_a_transaction_holds_nobody_up(bench: KafkaBench) -> None:
    """Who opens its writer ends it: its records, its position and its markers block no reader."""
    slot = bench.slot()
    task = slot.start(COUNTS, host="a")
    write(task, 0, 3)
    task.put(COUNTS, "ghost", 1)
    changelog = bench.changelog_of(COUNTS)
    for partition, batch in task.state.change_records().items():
        slot.writer.append(partition, batch)
    hidden = slot.writer.flush([changelog])[changelog]
    again = bench.start(COUNTS, host="b")
    assert bench.span(again, COUNTS) == (0, 3)
    write(again, 3, 4)
    assert bench.position().changelogs["counts"] > hidden, "its offsets are not used again"
    assert bench.stands(COUNTS) == 4
    moved = bench.start(COUNTS, host="c")
    assert moved.rows(COUNTS) == bench.fold(COUNTS) == {f"key-{number}": number for number in range(4)}
    task.drop()
