"""Blocks of records in internal topics of a replay: what comes out is what was written, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.checks import check_batch
from tidegate.log.records import READ_SCHEMA, Row, rows_of, to_batch
from tidegate.log.topic import TopicInfo
from tidegate.runtime.output.blocks import BLOCK_BYTES, LEAST_LIMIT, packed, parts
from tidegate.runtime.output.numbered_origins import (
    NUMBERED_SCHEMA,
    Sources,
    numbered,
    records_in,
    with_headers,
)
from tidegate.runtime.output.origin import origin_header, origin_of, with_times
from tidegate.types import TopicPartition

PARTITION = TopicPartition("app-by-name-repartition", 3)
TASK = "by-name/0_1"
LIMIT = 1 << 20


def row(number: int, size: int, *, key: bytes | None = b"k", value: bool = True) -> Row:
    time = 1000 + number
    headers = (("mine", b"x"), origin_header(f"in/0/{number}", TASK, number, time))
    return Row(key, b"v" * size if value else None, number, headers)


def as_read(batches: list[pa.RecordBatch], start: int = 7) -> pa.RecordBatch:
    """What a reader gets."""
    joined = pa.concat_batches(batches)
    offsets = pa.arange(start, start + joined.num_rows)
    return pa.RecordBatch.from_arrays([offsets, *joined.columns], schema=READ_SCHEMA)


def accepted(batches: Iterable[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
    """All of them; raises if a topic with this limit does not take one."""
    info = TopicInfo(PARTITION.topic, "uid", {"max.message.bytes": str(limit)}, (0,) * 4)
    listed = list(batches)
    for batch in listed:
        check_batch(info, PARTITION.partition, batch, 10_000)
    return listed


def unpacked(batches: list[pa.RecordBatch]) -> tuple[list[Row], list[int], list[str]]:
    rows: list[Row] = []
    times: list[int] = []
    tasks: list[str] = []
    for part in parts(PARTITION, as_read(batches)):
        found = rows_of(with_headers(_read(part.records)))
        rows += [Row(one.key, one.value, one.timestamp, tuple(one.headers)) for one in found]
        times += part.records.column("time").to_pylist()
        tasks += part.tasks.to_pylist()
    return rows, times, tasks


def _read(records: pa.RecordBatch) -> pa.RecordBatch:
    offsets = pa.arange(0, records.num_rows)
    return pa.RecordBatch.from_arrays([offsets, *records.columns], schema=NUMBERED_SCHEMA)


def outputs(sizes: list[int], first: int, partition: TopicPartition) -> pa.RecordBatch:
    """What a task has for a partition, with its origins as numbers: values of these sizes."""
    count = len(sizes)
    offsets = pa.arange(first, first + count)
    keys = pa.array([b"k"] * count, pa.binary())
    values = pa.array([b"v" * size for size in sizes], pa.binary())
    return numbered(offsets, keys, values, pa.array([1000 + first] * count), records_in(partition, offsets))


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 10, 3_000, 40_000, 200_000]), st.booleans(), st.booleans()),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([LEAST_LIMIT - 1, 220_000, LIMIT]),
    st.integers(0, 30),
)
def test_records_come_out_as_they_were_written(
    sizes: list[tuple[int, bool, bool]], limit: int, cut: int
) -> None:
    rows = [
        row(number, size, key=b"k" if keyed else None, value=valued)
        for number, (size, keyed, valued) in enumerate(sizes)
    ]
    batches = [to_batch(rows[:cut]), to_batch(rows[cut:])]
    written = accepted(packed(PARTITION, batches, TASK, limit), max(limit, 250_000))
    assert unpacked(written) == (rows, [1000 + number for number in range(len(rows))], [TASK] * len(rows))


def test_many_records_are_few_blocks_and_none_is_larger_than_the_topic_takes() -> None:
    rows = [row(number, 100) for number in range(20_000)]
    for limit in (LEAST_LIMIT, LIMIT):
        written = pa.concat_batches(accepted(packed(PARTITION, [to_batch(rows)], TASK, limit), limit))
        assert written.num_rows < 20_000 * 400 / min(limit // 2, BLOCK_BYTES)
        assert unpacked([written])[0] == rows


def test_large_records_among_small_ones_do_not_make_a_block_too_large() -> None:
    """The number of records in a block follows from their average size. Of these lengths some make the first
    block as large as a block may be, and leave no room for its own header."""
    limit = 165_536
    small = [row(number, 10) for number in range(6, 1500)]
    for last in range(14_000, 20_000, 40):
        rows = [*(row(number, 20_000) for number in range(5)), row(5, last), *small]
        written = accepted(packed(PARTITION, [to_batch(rows)], TASK, limit), limit)
        assert unpacked(written[:1])[0][:6] == rows[:6]


def test_a_record_that_is_large_by_its_headers_is_written_as_it_is() -> None:
    small = [row(number, 10) for number in range(3)]
    large = Row(b"k", b"v", 3, (("mine", b"x" * 99_000), origin_header("in/0/3", TASK, 3, 1003)))
    written = accepted(packed(PARTITION, [to_batch([*small, large])], TASK, 100_000), 100_000)
    assert unpacked(written)[0] == [*small, large]


def test_times_that_are_known_are_not_parsed() -> None:
    """Those that came with the batch are written, whatever the headers hold."""
    rows = [row(number, 10) for number in range(5)]
    timed = with_times(to_batch(rows), pa.array([5, 6, 7, 8, 9], pa.int64()))
    found, times, _ = unpacked(list(packed(PARTITION, [timed], TASK, LIMIT)))
    assert (found, times) == (rows, [5, 6, 7, 8, 9])


@given(
    st.lists(st.lists(st.sampled_from([0, 10, 3_000, 80_000]), max_size=8), min_size=1, max_size=5),
    st.sampled_from([LEAST_LIMIT - 1, 220_000, LIMIT]),
    st.booleans(),
)
def test_origins_that_are_numbers_come_out_as_headers(
    sizes: list[list[int]], limit: int, single: bool
) -> None:
    """Of records in blocks, of large ones beside them, of those in a topic that takes no blocks; and single
    records, whose headers have the origin, are among them."""
    batches, expected = [], []
    for number, of_batch in enumerate(sizes):
        source = TopicPartition("in", number % 3)
        batches.append(outputs(of_batch, 100 * number, source))
        expected += [(f"{source}/{100 * number + row}", 1000 + 100 * number) for row in range(len(of_batch))]
        if single:
            batches.append(to_batch([row(number, 10)]))
            expected.append((f"in/0/{number}", 1000 + number))
    written = accepted(packed(PARTITION, batches, TASK, limit), max(limit, 250_000))
    if not expected:
        assert sum(batch.num_rows for batch in written) == 0
        return
    rows, times, tasks = unpacked(written)
    origins = [origin_of(one.headers) for one in rows]
    assert [(one.position, one.time) for one in origins if one is not None] == expected
    assert (times, tasks) == ([time for _, time in expected], [TASK] * len(expected))


def test_sources_of_many_partitions_count_in_the_size_of_a_block() -> None:
    """A block has the names of all partitions in it. If they are too long for one, records are single."""
    count = 2_000
    names = pa.array([f"a-topic-with-a-name/{number}/" for number in range(count)])
    offsets = pa.arange(0, count)
    sources = Sources(pa.DictionaryArray.from_arrays(offsets.cast(pa.int32()), names), offsets)
    keys = pa.array([b"k"] * count, pa.binary())
    batch = numbered(offsets, keys, keys, offsets, sources)
    rows, _, _ = unpacked(accepted(packed(PARTITION, [batch], TASK, LEAST_LIMIT), LEAST_LIMIT))
    found = [origin_of(one.headers) for one in rows]
    assert [one.position for one in found if one is not None] == [
        f"a-topic-with-a-name/{number}/{number}" for number in range(count)
    ]


@pytest.mark.parametrize("limit", [LEAST_LIMIT - 1, LIMIT])
def test_no_records_are_no_blocks(limit: int) -> None:
    assert sum(batch.num_rows for batch in packed(PARTITION, [to_batch([])], TASK, limit)) == 0
