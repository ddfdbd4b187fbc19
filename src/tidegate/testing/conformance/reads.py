"""Readers, ends, bounded reads, folds, purge and compaction."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from tidegate.errors import LogError
from tidegate.log.reads import fold, read_between, read_to_end
from tidegate.log.records import rows_of, to_batch
from tidegate.testing.conformance.bench import (
    WAIT_SECONDS,
    LogBench,
    drain,
    make,
    name,
    read_all,
    row,
    values,
    wait_for_end,
)
from tidegate.types import Offset, TopicPartition


class ReadConformance:
    """Readers, ends, bounded reads, folds, purge and compaction."""

    def test_a_reader_continues_from_its_position_and_knows_the_end(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        log.append(partition, to_batch([row(b"k", b"%d" % n) for n in range(10)]))
        with closing(log.reader({partition: Offset(4)})) as reader:
            assert [found.offset for found in drain(reader, partition, 6)] == [4, 5, 6, 7, 8, 9]
            wait_for_end(reader, partition)
            assert reader.position(partition) >= 10
            log.append(partition, to_batch([row(b"k", b"late")]))
            assert values(drain(reader, partition, 1)) == [b"late"]
            reader.seek(partition, Offset(8))
            assert not reader.at_end(partition)
            assert values(drain(reader, partition, 3)) == [b"8", b"9", b"late"]

    def test_a_reader_of_many_partitions_gets_each_in_order(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log, 3)
        partitions = [TopicPartition(topic, n) for n in range(3)]
        for turn in range(30):
            log.append(partitions[turn % 3], to_batch([row(b"k", b"%d" % turn)]))
        seen: dict[TopicPartition, list[bytes | None]] = {partition: [] for partition in partitions}
        with closing(log.reader({partition: Offset(0) for partition in partitions})) as reader:
            deadline = time.monotonic() + WAIT_SECONDS
            while sum(map(len, seen.values())) < 30 and time.monotonic() < deadline:
                for fetched in reader.poll(0.2):
                    seen[fetched.partition] += values(rows_of(fetched.batch))
        assert [seen[partition] for partition in partitions] == [
            [b"%d" % turn for turn in range(first, 30, 3)] for first in range(3)
        ]

    def test_a_paused_partition_returns_nothing_and_continues_where_it_was(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log, 2)
        one, two = (TopicPartition(topic, n) for n in range(2))
        for partition in (one, two):
            log.append(partition, to_batch([row(b"k", b"%d" % n) for n in range(3)]))
        with closing(log.reader({one: Offset(1), two: Offset(0)})) as reader:
            reader.pause([one])
            assert values(drain(reader, two, 3)) == [b"0", b"1", b"2"]
            wait_for_end(reader, two)
            assert (reader.poll(0.05), reader.at_end(one), reader.position(one)) == ([], False, 1)
            reader.pause([two])
            log.append(two, to_batch([row(b"k", b"3")]))
            assert values(drain(reader, one, 2)) == [b"1", b"2"]
            wait_for_end(reader, one)
            assert not reader.at_end(two)
            reader.pause([])
            assert values(drain(reader, two, 1)) == [b"3"]
            wait_for_end(reader, two)

    def test_an_empty_partition_is_at_its_end(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.reader({partition: Offset(0)})) as reader:
            wait_for_end(reader, partition)
            assert reader.poll(0.05) == []

    def test_the_uncommitted_end_is_never_before_the_committed_one(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.writer(name())) as writer:
            writer.append(partition, to_batch([row(b"k", b"v")]))
            writer.flush([partition])
            assert log.ends([partition])[partition] == 0
            assert log.ends([partition], committed=False)[partition] >= 0
            writer.commit()
        found = [
            found for fetched in read_to_end(log, {partition: Offset(0)}) for found in rows_of(fetched.batch)
        ]
        assert values(found) == [b"v"]

    def test_a_bounded_read_stops_below_its_end(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        log.append(partition, to_batch([row(b"k", b"%d" % n) for n in range(10)]))
        found = [found.offset for batch in read_between(log, partition, 3, 7) for found in rows_of(batch)]
        assert found == [3, 4, 5, 6]
        assert list(read_between(log, partition, 7, 7)) == []

    def test_a_bounded_read_beyond_the_end_waits_and_then_raises(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        log.append(partition, to_batch([row(b"k", b"v")]))
        with pytest.raises(LogError) as error:
            list(read_between(log, partition, 0, 5, patience=0.2))
        assert error.value.code == "end-not-reached"
        assert error.value.retryable

    def test_the_offset_of_a_time_is_the_first_record_at_or_after_it(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        for at in (1000, 2000, 3000, 4000, 5000):
            log.append(partition, to_batch([row(b"k", b"v", at)]))
        assert [log.offset_at(partition, at) for at in (0, 2000, 2001, 4500, 5001)] == [0, 1, 2, 4, 5]

    def test_a_purge_cuts_history_and_a_late_reader_gets_an_error(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        for turn in range(10):
            log.append(partition, to_batch([row(b"k", b"%d" % turn)]))
        log.purge(partition, Offset(6))
        info = log.describe(partition.topic)
        assert (info.starts, info.history_cut) == ((6,), True)
        assert values(read_all(log, partition)) == [b"6", b"7", b"8", b"9"]
        with (
            closing(log.reader({partition: Offset(2)})) as reader,
            pytest.raises(LogError, match="2") as error,
        ):
            for _ in range(100):
                reader.poll(0.1)
        assert error.value.code == "offset-out-of-range"

    def test_compaction_keeps_the_newest_of_each_key_at_its_offset(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log, cleanup_policy="compact"), 0)
        for turn in range(40):
            log.append(partition, to_batch([row(b"%d" % (turn % 4), b"%d" % turn)]))
        log.append(partition, to_batch([row(b"0", None)]))
        log.append(partition, to_batch([row(b"new", b"x")]))
        before = fold(log, partition)
        bench.compact(partition.topic)
        rows = read_all(log, partition)
        kept = {found.key: (found.offset, found.value) for found in rows}
        assert len(rows) < 42
        assert kept[b"3"] == (39, b"39")
        assert kept[b"0"] == (40, None)
        assert fold(log, partition) == before
        assert log.ends([partition])[partition] == 42

    def test_a_table_is_folded_at_an_offset(self, bench: LogBench) -> None:
        log = bench.open()
        lag = str(3600 * 1000)  # a log that compacted at once would have no past
        partition = TopicPartition(make(log, cleanup_policy="compact", min_compaction_lag_ms=lag), 0)
        now = int(time.time() * 1000)
        log.append(
            partition, to_batch([row(b"a", b"1", now), row(b"b", b"2", now + 1), row(b"a", None, now)])
        )
        log.append(partition, to_batch([row(b"a", b"3", now + 2)]))
        assert fold(log, partition, 2) == {b"a": (b"1", now), b"b": (b"2", now + 1)}
        assert fold(log, partition, 3) == {b"b": (b"2", now + 1)}
        assert fold(log, partition) == {b"a": (b"3", now + 2), b"b": (b"2", now + 1)}
