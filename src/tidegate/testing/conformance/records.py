"""Bytes in, the same bytes out; what cannot be taken is refused by name."""

from __future__ import annotations

from contextlib import closing

import pytest

from tidegate.errors import LogError
from tidegate.log.records import ReadRow, Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.testing.conformance.bench import (
    LogBench,
    make,
    name,
    now,
    read_all,
    row,
    values,
)
from tidegate.types import TopicPartition


class RecordConformance:
    """Bytes in, the same bytes out; what cannot be taken is refused by name."""

    def test_bytes_headers_and_times_come_back_unchanged(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        headers = (("a", b"1"), ("a", b"2"), ("empty", b""), ("none", None), ("ünï", b"\xff"))
        rows = [
            Row(b"k", b"v", now(), headers),
            Row(b"", b"", 0),
            Row(None, b"\x00" * 10, 1),
            Row(b"\xff" * 300, None, now() - 5),
        ]
        assert log.append(partition, to_batch(rows)) == 3
        assert read_all(log, partition) == [
            ReadRow(offset, sent.timestamp, sent.key, sent.value, tuple(sent.headers))
            for offset, sent in enumerate(rows)
        ]

    def test_offsets_rise_over_many_appends(self, bench: LogBench) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        last = [log.append(partition, to_batch([row(b"k", b"%d" % n)] * 3)) for n in range(20)]
        rows = read_all(log, partition)
        offsets = [found.offset for found in rows]
        assert len(offsets) == 60
        assert offsets == sorted(set(offsets))
        assert last == [rows[3 * n + 2].offset for n in range(20)]

    @pytest.mark.parametrize(
        ("bad", "code"),
        [
            (Row(b"k", b"x" * 2_000_000, 5), "record-too-large"),
            (Row(b"k", b"v", -5), "bad-timestamp"),
            (Row(b"k", b"v", 253_402_300_800_000), "bad-timestamp"),
        ],
    )
    def test_a_refused_record_leaves_the_transaction_usable(
        self, bench: LogBench, bad: Row, code: str
    ) -> None:
        log = bench.open()
        partition = TopicPartition(make(log), 0)
        with closing(log.writer(name())) as writer:
            writer.append(partition, to_batch([row(b"k", b"before")]))
            with pytest.raises(LogError) as error:
                writer.append(partition, to_batch([row(b"k", b"with"), bad]))
            assert error.value.code == code
            assert error.value.hint
            writer.append(partition, to_batch([row(b"k", b"after")]))
            writer.commit()
        assert values(read_all(log, partition)) == [b"before", b"after"]

    def test_a_far_future_is_taken_where_the_topic_allows_it(self, bench: LogBench) -> None:
        log = bench.open()
        topic = name()
        log.create(TopicSpec(topic, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)}))
        log.append(TopicPartition(topic, 0), to_batch([Row(b"k", b"v", 253_402_300_799_999)]))
        assert read_all(log, TopicPartition(topic, 0))[0].timestamp == 253_402_300_799_999

    def test_a_record_without_key_is_refused_by_a_compacted_topic(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log, cleanup_policy="compact")
        with pytest.raises(LogError) as error:
            log.append(TopicPartition(topic, 0), to_batch([row(None, b"v")]))
        assert error.value.code == "null-key"

    @pytest.mark.parametrize("partition", [-1, 2, 10_000])
    def test_a_partition_out_of_range_is_refused(self, bench: LogBench, partition: int) -> None:
        log = bench.open()
        topic = make(log, 2)
        with pytest.raises(LogError) as error:
            log.append(TopicPartition(topic, partition), to_batch([row(b"k", b"v")]))
        assert error.value.code == "no-such-partition"
