"""Bounded reads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.errors import LogError
from tidegate.log.protocol import Reader
from tidegate.log.reads import read_between, read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.reopening import ReopeningLog
from tidegate.log.sqlite.database import KEPT_CONNECTIONS
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

PARTITION = TopicPartition("events", 0)
PATIENCE = 0.5
"""More than a busy machine keeps a process waiting between two steps."""


def test_the_time_that_the_caller_takes_is_not_held_against_the_log() -> None:
    with closing(SqliteLog()) as log:
        log.create(TopicSpec("events"))
        for number in range(3):
            log.append(PARTITION, to_batch([Row(b"k", b"x" * 900_000, number)] * 2))
        seen = 0
        for batch in read_between(log, PARTITION, 0, 6, patience=PATIENCE):
            dawdle(first=not seen)
            seen += batch.num_rows
        assert seen == 6
        for fetched in read_to_end(log, {PARTITION: Offset(0)}, patience=PATIENCE):
            dawdle(first=seen == 6)
            seen += fetched.batch.num_rows
        assert seen == 12


def dawdle(*, first: bool) -> None:
    """Take longer than the log may."""
    if first:
        time.sleep(1.2 * PATIENCE)


def test_nothing_is_opened_to_read_a_partition_that_has_no_more_records() -> None:
    with closing(SqliteLog()) as log, closing(CountingReaders(log)) as counting:
        log.create(TopicSpec("events", 3))
        log.append(TopicPartition("events", 1), to_batch([Row(b"k", b"v", 1)]))
        starts = {TopicPartition("events", number): Offset(0) for number in range(3)}
        assert [fetched.partition.partition for fetched in read_to_end(counting, starts)] == [1]
        assert counting.readers == 1


class CountingReaders(ReopeningLog):
    """A log that counts the readers that it opens."""

    def __init__(self, log: SqliteLog) -> None:
        super().__init__(lambda: log)
        self.readers = 0

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> Reader:
        self.readers += 1
        return super().reader(positions, brief=brief)


def test_readers_use_the_connections_of_those_that_were_closed(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as log:
        log.create(TopicSpec("events"))
        log.append(PARTITION, to_batch([Row(b"k", b"v", 1)]))
        database = log._database
        readers = [log.reader({PARTITION: Offset(0)}) for _ in range(2 * KEPT_CONNECTIONS)]
        for reader in readers:
            assert reader.poll(0)
            reader.close()
            reader.close()
        assert len(database._kept) == KEPT_CONNECTIONS
        log.append(PARTITION, to_batch([Row(b"k", b"w", 2)]))
        with closing(log.reader({PARTITION: Offset(1)})) as again:
            assert len(database._kept) == KEPT_CONNECTIONS - 1
            [fetched] = again.poll(0)
            assert fetched.batch.num_rows == 1
        late = log.reader({PARTITION: Offset(0)})
    late.close()
    assert (database._kept, list(tmp_path.iterdir())) == ([], [tmp_path / "log.db"])


def test_a_topic_is_as_another_process_left_it(tmp_path: Path) -> None:
    """It is read again only after a commit of anybody, and then always."""
    with (
        closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as log,
        closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as other,
    ):
        first = log.create(TopicSpec("events"))
        for _ in range(2):
            assert log.describe("events").uid == first.uid
        other.delete("events")
        with pytest.raises(LogError, match="no-such-topic"):
            log.describe("events")
        second = other.create(TopicSpec("events", 2))
        assert (log.describe("events").uid, log.describe("events").partitions) == (second.uid, 2)
        other.append(PARTITION, to_batch([Row(b"k", b"v", 1)] * 3))
        other.purge(PARTITION, Offset(2))
        assert log.describe("events").starts == (2, 0)
