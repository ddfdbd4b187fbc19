"""Histories that once went wrong, most of them found by the machine beside this file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import apsw
import pytest
from tests.log.anatomy import stored
from tests.log.pair import Pair, at_step, crash, outcome

from tidegate.clock import ManualClock
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.log.sqlite import compact, file_check
from tidegate.log.sqlite.append import load_partition
from tidegate.log.sqlite.layout import PartitionRow
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

EVENTS = TopicPartition("events", 0)
TABLE = TopicPartition("table", 0)
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "8000"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pair(tmp_path: Path, clock: ManualClock) -> Iterator[Pair]:
    """Two handles of one file."""
    pair = Pair(lambda: SqliteLog(tmp_path / "log.db", clock=clock, upkeep=False, spill_bytes=1000), 2, clock)
    pair.create(0, TopicSpec("events"))
    pair.create(0, TopicSpec("table", 1, COMPACT))
    yield pair
    pair.check_contents(0)
    pair.check_contents(1)
    pair.check_tables()
    pair.close()


def some(clock: ManualClock, *keys: str, value: bytes | None = b"value") -> list[Row]:
    return [Row(key.encode(), value, clock.now()) for key in keys]


def test_a_reader_that_was_refused_is_refused_again(pair: Pair, clock: ManualClock) -> None:
    pair.append_plainly(0, EVENTS, some(clock, "a"))
    pair.open_reader(1, {EVENTS}, 0.0)
    pair.poll(pair.readers[0])
    pair.append_plainly(0, EVENTS, some(clock, "b", "c"))
    pair.purge(0, EVENTS, 0.7)
    pair.poll(pair.readers[0])


def test_tombstones_do_not_wait_for_younger_ones(pair: Pair, clock: ManualClock) -> None:
    for number in range(30):
        pair.append_plainly(0, TABLE, some(clock, f"key {number}", value=None))
        pair.compact("table")
        clock.advance(1000)
    assert len(pair.oracle.partition(TABLE).kept) < 10


def test_a_retention_of_tombstones_without_end_is_no_overflow(pair: Pair, clock: ManualClock) -> None:
    config = {**COMPACT, "delete.retention.ms": str(2**63 - 1)}
    pair.create(0, TopicSpec("kept", 1, config))
    pair.append_plainly(0, TopicPartition("kept", 0), some(clock, "a", value=None))
    for _ in range(2):
        clock.advance(10**12)
        pair.compact("kept")
    assert len(pair.oracle.partition(TopicPartition("kept", 0)).kept) == 1


def test_a_compaction_ends_though_a_purge_takes_everything(pair: Pair, clock: ManualClock) -> None:
    for _ in range(4):
        pair.append_plainly(0, TABLE, [Row(b"a", os.urandom(700_000), clock.now())])
    pages = iter(range(100))

    def load_after_a_purge(connection: apsw.Connection, partition_id: int) -> PartitionRow:
        if next(pages) == 2:
            pair.purge(1, TABLE, 1.0)
        return load_partition(connection, partition_id)

    # No numbered step of the compaction lies between two of its pages.
    with mock.patch.object(compact, "load_partition", load_after_a_purge):
        pair.compact_in_trouble("table")
    assert next(pages) > 3


def test_merging_does_not_make_tombstones_older(pair: Pair, clock: ManualClock) -> None:
    for number in range(40):
        pair.append_plainly(0, TABLE, some(clock, f"key {number}", value=None if number % 2 else b"value"))
    pair.upkeep()
    assert len(stored(pair.logs[0])[TABLE].spans) == 1
    for _ in range(3):
        pair.compact("table")
        clock.advance(4000)


def test_upkeep_goes_on_though_a_topic_is_deleted_meanwhile(pair: Pair, clock: ManualClock) -> None:
    """The table is deleted while its tombstones go; the topic behind it still gets its turn."""
    pair.create(0, TopicSpec("very-short", 1, {"retention.ms": "1"}))
    pair.append_plainly(0, TABLE, some(clock, "a", value=None))
    pair.append_plainly(0, TopicPartition("very-short", 0), some(clock, "b"))
    pair.compact("table")
    clock.advance(20_000)
    with at_step("log.compact.2", 1, lambda: pair.delete(1, "table")):
        pair.logs[0].upkeep()
    pair.oracle.partition(TopicPartition("very-short", 0)).cut(1)


def test_a_transaction_does_not_reach_the_successor_of_its_topic(pair: Pair, clock: ManualClock) -> None:
    writer = pair.open_writer(0, "w")
    pair.append(writer, EVENTS, some(clock, "old"))
    pair.delete(0, "events")
    pair.create(0, TopicSpec("events"))
    pair.append(writer, EVENTS, some(clock, "new"))
    pair.commit(writer)
    assert writer.known.spent


def test_a_topic_made_again_by_another_process_is_found(pair: Pair, clock: ManualClock) -> None:
    writer = pair.open_writer(1, "w")
    pair.append(writer, EVENTS, some(clock, "a"))
    pair.commit(writer)
    pair.delete(0, "events")
    pair.create(0, TopicSpec("events", 3))
    last = TopicPartition("events", 2)
    pair.append_plainly(1, last, some(clock, "b"))
    pair.open_reader(1, {EVENTS, last}, 0.0)
    pair.poll(pair.readers[0])
    assert pair.logs[1].ends([EVENTS]) == {EVENTS: 0}


def test_a_writer_fails_once_at_most_after_its_topic_was_made_again(pair: Pair, clock: ManualClock) -> None:
    pair.append_plainly(1, EVENTS, some(clock, "a"))
    pair.delete(0, "events")
    pair.create(0, TopicSpec("events"))
    writers = []
    for _ in range(2):
        writers.append(pair.open_writer(1, "w"))
        pair.append(writers[-1], EVENTS, some(clock, "b"))
        pair.commit(writers[-1])
    assert not writers[-1].known.spent


def test_an_empty_commit_still_checks_the_offsets_that_flush_returned(pair: Pair, clock: ManualClock) -> None:
    writer = pair.open_writer(0, "w")
    pair.flush(writer, {EVENTS})
    pair.append_plainly(1, EVENTS, some(clock, "a"))
    assert pair.oracle.refusal(writer.known) == "offsets-moved"
    pair.commit(writer)


def test_a_spill_that_failed_halfway_is_not_committed_twice(pair: Pair, clock: ManualClock) -> None:
    writer = pair.open_writer(0, "w")
    with at_step("log.commit.2", 2, crash):
        for number in range(100):
            pair.append(writer, EVENTS, some(clock, f"key {number}"))
            pair.append(writer, TABLE, some(clock, f"key {number}"))
    pair.commit(writer)
    assert pair.oracle.partition(EVENTS).next == 0


def test_a_log_opens_while_its_last_process_leaves(tmp_path: Path) -> None:
    """The one that leaves moves its WAL into the file and deletes it between two looks at them."""
    path = tmp_path / "log.db"
    with_wal = SqliteLog(path, upkeep=False)
    with_wal.create(TopicSpec("events"))
    with_wal.append(EVENTS, to_batch([Row(b"a", os.urandom(300_000), 0)]))
    really = file_check._opened

    def after_it_left(path: Path, vfs: str | None) -> AbstractContextManager[apsw.VFSFile]:
        with_wal.close()
        return really(path, vfs)

    # Another process would have to end between two system calls.
    with mock.patch.object(file_check, "_opened", after_it_left):
        opened = SqliteLog(path, upkeep=False)
    reader = opened.reader({EVENTS: Offset(0)})
    [fetched] = reader.poll(0)
    assert [row.key for row in rows_of(fetched.batch)] == [b"a"]
    reader.close()
    assert outcome(opened.close) is None
