"""Restore, steps 3 to 5: what is read from the changelog, how far, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.state.bench import AT_EVERY_TURN, Bench
from tests.state.faults import Failure, failing_at
from tests.state.lagging import LaggingLog
from tests.state.lives import COUNTS

from tidegate.errors import StateError
from tidegate.faultpoints import installed
from tidegate.types import TopicPartition

FORGETFUL = COUNTS.with_changelog({"delete.retention.ms": "1000"})


def test_an_empty_changelog_gives_an_empty_store(bench: Bench) -> None:
    task = bench.start(COUNTS)
    assert task.rows(COUNTS) == {}
    assert task.listener.events == [("start", "counts", 0, 0, 0), ("end", "counts", 0, 0)]


def test_a_current_store_reads_nothing(bench: Bench) -> None:
    task = bench.start(COUNTS)
    task.put(COUNTS, "ada", 1)
    task.commit()
    task.close()
    again = bench.open(COUNTS)
    assert again.restore.waiting_for == {}
    assert again.restore.turn()
    assert again.rows(COUNTS) == {"ada": 1}
    assert again.listener.events == [("start", "counts", 0, 1, 1), ("end", "counts", 0, 0)]


def test_puts_and_deletes_of_one_key_in_one_batch_keep_their_order(bench: Bench) -> None:
    task = bench.start(COUNTS, host="a")
    for value in (1, None, 2):
        task.put(COUNTS, "put again", value)
        task.commit()
    for value in (1, None, 2, None):
        task.put(COUNTS, "deleted again", value)
        task.commit()
    moved = bench.start(COUNTS, host="b")
    assert [event for event in moved.listener.events if event[0] == "batch"] == [("batch", "counts", 0, 7, 7)]
    assert moved.rows(COUNTS) == {"put again": 2}


def test_offsets_that_compaction_emptied_count_as_read(bench: Bench) -> None:
    task = bench.start(FORGETFUL, host="a")
    for number in range(30):
        task.put(FORGETFUL, f"key-{number % 10}", number)
        task.commit()
    for number in range(9):
        task.delete(FORGETFUL, f"key-{number}")
        task.commit()
    bench.log.compact("shop-counts-changelog")
    bench.clock.advance(2000)
    bench.log.compact("shop-counts-changelog")
    assert bench.changelog(FORGETFUL) == [("key-9", 29)], "all that is left, and not at the end"

    moved = bench.start(FORGETFUL, host="b")
    assert moved.rows(FORGETFUL) == {"key-9": 29}
    assert moved.listener.span("counts") == (0, 39)
    assert moved.listener.restored("counts") == 1
    moved.put(FORGETFUL, "key-9", 30)
    moved.commit()
    assert bench.position().changelogs == {"counts": 40}


def test_an_aborted_transaction_at_the_end_is_not_seen(bench: Bench) -> None:
    slot = bench.slot()
    task = slot.start(COUNTS)
    task.put(COUNTS, "ada", 1)
    slot.commit()
    task.put(COUNTS, "ghost", 1)
    with pytest.raises(Failure), installed(failing_at("commit.5")):
        slot.commit()
    slot.writer.abort()
    slot.drop()
    again = bench.start(COUNTS)
    assert again.rows(COUNTS) == {"ada": 1} == bench.fold(COUNTS)
    assert again.listener.span("counts") == (0, 1)


def test_a_restore_waits_for_a_committed_end_that_is_short_of_the_position(folder: Path) -> None:
    bench = Bench(folder, kind=LaggingLog)
    assert isinstance(bench.log, LaggingLog)
    task = bench.start(COUNTS, host="a")
    for number in range(10):
        task.put(COUNTS, f"key-{number}", number)
    task.commit()
    at = bench.position()
    bench.log.hide(bench.changelog_of(COUNTS), above=4, polls=4)
    assert bench.log.ends([bench.changelog_of(COUNTS)])[bench.changelog_of(COUNTS)] == 4
    moved = bench.open(COUNTS, host="b", at=at)
    turns = [moved.restore.turn()]
    assert moved.restore.waiting_for == {bench.changelog_of(COUNTS): 10}
    while not turns[-1]:
        turns.append(moved.restore.turn())
    assert turns == [False, False, False, False, True]
    assert moved.rows(COUNTS) == bench.fold(COUNTS)
    assert [event[3:] for event in moved.listener.events if event[0] == "batch"] == [(4, 4), (10, 6)]
    bench.close()


def test_a_position_behind_another_writers_open_transaction_is_waited_for(folder: Path) -> None:
    """A committed reader that took the end for the end would find the position before the last."""
    bench = Bench(folder, kind=LaggingLog)
    assert isinstance(bench.log, LaggingLog)
    task = bench.start(COUNTS, host="a")
    for number in range(3):
        task.put(COUNTS, "ada", number)
        task.commit()
    positions = TopicPartition("shop-positions", 0)
    bench.log.hide(positions, above=int(bench.log.ends([positions])[positions]) - 2, polls=5)
    moved = bench.start(COUNTS, host="b")
    assert moved.offset == 3
    assert moved.rows(COUNTS) == {"ada": 2}
    bench.close()


def test_another_writers_open_transaction_on_the_changelog_is_not_waited_for(bench: Bench) -> None:
    """Its records have no offsets yet: the position says exactly how far to read."""
    task = bench.start(COUNTS, host="a")
    task.put(COUNTS, "ada", 1)
    task.commit()
    foreign = bench.slot("foreign")
    other = foreign.start(COUNTS, partition=0, host="c")
    other.put(COUNTS, "ghost", 1)
    for partition, batch in other.state.change_records().items():
        foreign.writer.append(partition, batch)
    foreign.writer.flush([bench.changelog_of(COUNTS)])
    assert bench.start(COUNTS, host="b").rows(COUNTS) == {"ada": 1}


def test_an_end_that_never_comes_is_an_error_by_name_and_a_later_try_goes_on(folder: Path) -> None:
    bench = Bench(folder, kind=LaggingLog)
    assert isinstance(bench.log, LaggingLog)
    task = bench.start(COUNTS, host="a")
    for number in range(10):
        task.put(COUNTS, f"key-{number}", number)
    task.commit()
    at = bench.position()
    bench.log.hide(bench.changelog_of(COUNTS), above=4, polls=1 << 30)
    moved = bench.open(COUNTS, host="b", at=at, limits=AT_EVERY_TURN)
    with pytest.raises(StateError) as error:
        moved.restore.run(patience=0.05)
    assert (error.value.code, error.value.retryable) == ("restore-waits", True)
    assert moved.listener.events[-1] == ("suspended", "counts", 0, 4)
    bench.log.hide(bench.changelog_of(COUNTS), above=4, polls=0)
    again = bench.start(COUNTS, host="b")
    assert again.listener.span("counts") == (4, 10)
    assert again.rows(COUNTS) == bench.fold(COUNTS)
    bench.close()
