"""Blocks of records in internal topics of a replay: what comes out is what was written, whatever its size."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.records import READ_SCHEMA, Row, rows_of, to_batch
from tidegate.runtime.output.blocks import BLOCK_BYTES, LEAST_LIMIT, packed, parts
from tidegate.runtime.output.origin import origin_header, with_times
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


def unpacked(batches: list[pa.RecordBatch]) -> tuple[list[Row], list[int], list[str]]:
    rows: list[Row] = []
    times: list[int] = []
    tasks: list[str] = []
    for part in parts(PARTITION, as_read(batches)):
        found = rows_of(_read(part.records))
        rows += [Row(one.key, one.value, one.timestamp, tuple(one.headers)) for one in found]
        times += part.times.to_pylist()
        tasks += part.tasks.to_pylist()
    return rows, times, tasks


def _read(records: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.arange(0, records.num_rows), *records.columns], schema=READ_SCHEMA)


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
    written = list(packed(PARTITION, batches, TASK, limit))
    assert unpacked(written) == (rows, [1000 + number for number in range(len(rows))], [TASK] * len(rows))


def test_many_records_are_few_blocks_and_none_is_larger_than_the_topic_takes() -> None:
    rows = [row(number, 100) for number in range(20_000)]
    for limit in (LEAST_LIMIT, LIMIT):
        written = pa.concat_batches(list(packed(PARTITION, [to_batch(rows)], TASK, limit)))
        sizes = [len(value) for value in written.column(2).to_pylist()]
        assert max(sizes) <= limit
        assert written.num_rows < 20_000 * 400 / min(limit // 2, BLOCK_BYTES)
        assert unpacked([written])[0] == rows


def test_large_records_among_small_ones_do_not_make_a_block_too_large() -> None:
    """The number of records in a block follows from their average size."""
    limit = 100_000
    rows = [row(number, 10) for number in range(3000)] + [row(3000 + number, 12_000) for number in range(50)]
    written = pa.concat_batches(list(packed(PARTITION, [to_batch(rows)], TASK, limit)))
    assert max(len(value) for value in written.column(2).to_pylist()) <= limit
    assert unpacked([written])[0] == rows


def test_times_that_are_known_are_not_parsed() -> None:
    """Those that came with the batch are written, whatever the headers hold."""
    rows = [row(number, 10) for number in range(5)]
    timed = with_times(to_batch(rows), pa.array([5, 6, 7, 8, 9], pa.int64()))
    found, times, _ = unpacked(list(packed(PARTITION, [timed], TASK, LIMIT)))
    assert (found, times) == (rows, [5, 6, 7, 8, 9])


@pytest.mark.parametrize("limit", [LEAST_LIMIT - 1, LIMIT])
def test_no_records_are_no_blocks(limit: int) -> None:
    assert sum(batch.num_rows for batch in packed(PARTITION, [to_batch([])], TASK, limit)) == 0
