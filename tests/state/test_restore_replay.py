"""Restore, steps 3 to 5: what is read from the changelog, how far, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.state.bench import Bench
from tests.state.faults import Failure, failing_at
from tests.state.lives import COUNTS

from tidegate.log.faultpoints import installed

FORGETFUL = replace(COUNTS, config={"delete.retention.ms": "1000"})
"""As if it had been set at the broker: `with_changelog` does not take so little."""


def test_an_empty_changelog_restores_an_empty_store(bench: Bench) -> None:
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
    assert again.restore.step()
    assert again.rows(COUNTS) == {"ada": 1}
    assert bench.restore_events(again, COUNTS) == [("start", 1, 1), ("end", 0)]


def test_puts_and_deletes_of_one_key_in_one_batch_keep_their_order(bench: Bench) -> None:
    task = bench.start(COUNTS, host="a")
    for value in (1, None, 2):
        task.put(COUNTS, "put again", value)
        task.commit()
    for value in (1, None, 2, None):
        task.put(COUNTS, "deleted again", value)
        task.commit()
    assert bench.stands(COUNTS) == 7, "all of it shows"
    moved = bench.start(COUNTS, host="b")
    assert bench.restore_events(moved, COUNTS) == [("start", 0, 7), ("batch", 7, 7), ("end", 7)]
    assert moved.rows(COUNTS) == {"put again": 2}


def test_offsets_that_compaction_emptied_count_as_read(bench: Bench) -> None:
    task = bench.start(FORGETFUL, host="a")
    for number in range(30):
        task.put(FORGETFUL, f"key-{number % 10}", number)
        task.commit()
    for number in range(9):
        task.delete(FORGETFUL, f"key-{number}")
        task.commit()
    end = bench.position().changelogs["counts"]
    bench.forget(FORGETFUL, 2000)
    assert bench.changelog(FORGETFUL) == [("key-9", 29)], "all that is left, and not at the end"

    moved = bench.start(FORGETFUL, host="b")
    assert moved.rows(FORGETFUL) == {"key-9": 29}
    assert moved.listener.span("counts") == (0, end)
    assert moved.listener.restored("counts") == 1
    moved.put(FORGETFUL, "key-9", 30)
    moved.commit()
    [*_, last] = bench.offsets(FORGETFUL)
    assert last >= end
    assert bench.position().changelogs == {"counts": last + 1}


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
    assert bench.span(again, COUNTS) == (0, 1)


def test_another_writers_open_transaction_on_the_changelog_is_not_waited_for(bench: Bench) -> None:
    """Its records have no offsets yet: the position is exactly how far to read."""
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
