"""All or nothing, over many partitions; one holder per id."""

from __future__ import annotations

from contextlib import closing

import pytest

from tidegate.errors import FencedError, LogError
from tidegate.log.records import to_batch
from tidegate.testing.conformance.bench import (
    LogBench,
    make,
    name,
    read_all,
    row,
    values,
)
from tidegate.types import TopicPartition


class TransactionConformance:
    """All or nothing, over many partitions; one holder per id."""

    def test_a_transaction_shows_whole_and_only_after_its_commit(self, bench: LogBench) -> None:
        log, other = bench.open(), bench.open()
        partitions = [TopicPartition(make(log, 2), 1), TopicPartition(make(log), 0)]
        with closing(log.writer(name())) as writer:
            for partition in partitions:
                writer.append(partition, to_batch([row(b"k", b"v")]))
            assert [read_all(other, partition) for partition in partitions] == [[], []]
            writer.commit()
        assert [values(read_all(other, partition)) for partition in partitions] == [[b"v"], [b"v"]]

    def test_nothing_of_an_aborted_transaction_is_seen(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.writer(name())) as writer:
            writer.append(partition, to_batch([row(b"k", b"aborted")]))
            writer.flush([partition])
            writer.abort()
            writer.append(partition, to_batch([row(b"k", b"kept")]))
            writer.commit()
            writer.append(partition, to_batch([row(b"k", b"never ended")]))
        assert values(read_all(log, partition)) == [b"kept"]

    def test_an_empty_commit_is_fine(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.writer(name())) as writer:
            writer.commit()
            writer.abort()
            writer.append(partition, to_batch([]))
            writer.commit()
        assert read_all(log, partition) == []

    def test_flush_returns_the_offset_that_a_position_in_the_same_transaction_needs(
        self, bench: LogBench
    ) -> None:
        log = bench.open()
        changelog, positions = TopicPartition(make(log), 0), TopicPartition(make(log), 0)
        offsets = []
        with closing(log.writer(name())) as writer:
            for turn in range(3):
                writer.append(changelog, to_batch([row(b"k", b"v")] * (turn + 1)))
                next_offset = writer.flush([changelog])[changelog]
                writer.append(positions, to_batch([row(b"task", b"%d" % next_offset)]))
                writer.commit()
                offsets.append(next_offset)
        rows = read_all(log, changelog)
        assert [b"%d" % offset for offset in offsets] == values(read_all(log, positions))
        for offset, written in zip(offsets, (1, 3, 6), strict=True):
            assert sum(found.offset < offset for found in rows) == written

    def test_commit_returns_where_consecutive_records_begin_or_nothing(self, bench: LogBench) -> None:
        log = bench.open()
        partition, untouched = TopicPartition(make(log), 0), TopicPartition(make(log), 0)
        with closing(log.writer(name())) as one, closing(log.writer(name())) as two:
            for turn in range(3):
                one.append(partition, to_batch([row(b"k", b"one %d" % turn)]))
                two.append(partition, to_batch([row(b"k", b"two %d" % turn)] * 2))
            first = [one.commit(), two.commit()]
            one.append(partition, to_batch([row(b"k", b"alone")] * 4))
            first.append(one.commit())
        rows = read_all(log, partition)
        for found, count in zip(first, (3, 6, 4), strict=True):
            assert untouched not in found
            if partition in found:
                begin = found[partition]
                spans = [read.value for read in rows if begin <= read.offset < begin + count]
                assert len(spans) == count
                assert len({(value or b"")[:3] for value in spans}) == 1, "all are of that transaction"

    def test_flush_returns_the_end_of_an_untouched_partition(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.writer(name())) as writer:
            assert writer.flush([partition]) == {partition: log.ends([partition])[partition]}

    def test_a_large_transaction_is_atomic_too(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        piece = to_batch([row(b"%d" % n, b"x" * 1000) for n in range(1500)])
        with closing(log.writer(name())) as writer:
            for _ in range(8):
                writer.append(partition, piece)
            assert read_all(log, partition) == []
            writer.abort()
            for _ in range(8):
                writer.append(partition, piece)
            writer.commit()
        assert [found.key for found in read_all(log, partition)] == [b"%d" % n for n in range(1500)] * 8

    def test_a_newer_holder_of_the_id_fences_the_older(self, bench: LogBench) -> None:
        log, other = bench.open(), bench.open()
        partition, writer_id = TopicPartition(make(log), 0), name()
        zombie = log.writer(writer_id)
        zombie.append(partition, to_batch([row(b"k", b"committed")]))
        zombie.commit()
        zombie.append(partition, to_batch([row(b"k", b"zombie")]))
        zombie.flush([partition])
        with closing(other.writer(writer_id)) as holder:
            with pytest.raises(FencedError):
                zombie.commit()
            holder.append(partition, to_batch([row(b"k", b"holder")]))
            holder.commit()
        zombie.close()
        assert values(read_all(log, partition)) == [b"committed", b"holder"]

    def test_a_fenced_writer_stays_fenced(self, bench: LogBench) -> None:
        log = bench.open()
        partition, writer_id = TopicPartition(make(log), 0), name()
        zombie = log.writer(writer_id)
        log.writer(writer_id).close()
        for _ in range(2):
            with pytest.raises(LogError):
                zombie.append(partition, to_batch([row(b"k", b"zombie")]))
                zombie.commit()
        assert read_all(log, partition) == []

    def test_writers_of_different_ids_share_a_partition(self, bench: LogBench) -> None:
        log, other = bench.open(), bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.writer(name())) as first, closing(other.writer(name())) as second:
            first.append(partition, to_batch([row(b"a", b"1")]))
            second.append(partition, to_batch([row(b"b", b"2")]))
            second.commit()
            first.commit()
        assert sorted(str(value) for value in values(read_all(log, partition))) == ["b'1'", "b'2'"]
