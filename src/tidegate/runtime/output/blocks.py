"""Blocks: many records of an internal topic in one record of the log.

A replay writes to internal topics that only its own tasks read, each from the start to the end. So the
records of one task for one partition are written as blocks: the value is an Arrow record batch, the header
`tidegate.block` has the name of the task. What a log does for each record it does once for a block, and
readers need not parse origins for the time and the task.

A record that is large for a block is written as it is, and so are all in a topic whose limit is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.checks import HEADER_BYTES
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import APPEND_SCHEMA, Row, to_batch
from tidegate.runtime.output.origin import TIMED_SCHEMA, TIMES, origin_columns, without_times
from tidegate.types import TopicPartition

BLOCK = HEADER_PREFIX + "block"
BLOCK_BYTES = 256 << 10
LEAST_LIMIT = 16 << 10
"""Topics that take smaller records only get no blocks."""
LARGE = 4
"""A record of more than a fourth of a block is not put into one."""
_SCHEMA = APPEND_SCHEMA.append(TIMED_SCHEMA.field(TIMES))


class Part(NamedTuple):
    """Records of an internal topic with the time and the task of their origins, in the order of their
    offsets."""

    records: pa.RecordBatch
    """The columns of APPEND_SCHEMA."""
    times: pa.Array[Any]
    tasks: pa.Array[Any]


def packed(
    partition: TopicPartition, batches: Sequence[pa.RecordBatch], task: str, limit: int
) -> Iterator[pa.RecordBatch]:
    """Return the records that a task wrote to a partition as blocks. `limit` is the size of the largest
    record that the topic takes."""
    if limit < LEAST_LIMIT:
        yield from map(without_times, batches)
        return
    timed = [_timed(partition, batch) for batch in batches if batch.num_rows]
    if not timed:
        return
    whole = timed[0] if len(timed) == 1 else pa.concat_batches(timed)
    most = min(BLOCK_BYTES, (limit - HEADER_BYTES) // 2)
    blocks: list[Row] = []
    for large, batch in _by_size(whole, most // LARGE):
        for part, data in [(batch, None)] if large else _split(batch, most):
            if data is not None:
                time = part.column(0)[0].as_py()
                blocks.append(Row(None, data, time, ((BLOCK, task.encode()),)))
                continue
            if blocks:
                yield to_batch(blocks)
            blocks = []
            yield without_times(part)
    if blocks:
        yield to_batch(blocks)


def parts(partition: TopicPartition, batch: pa.RecordBatch) -> Iterator[Part]:
    """Return the records of a fetched batch (READ_SCHEMA), those of blocks and others."""
    begin = 0
    for row, task in _blocks(batch.column(4)):
        if begin < row:
            yield _plain(partition, batch.slice(begin, row - begin))
        records = pa.ipc.read_record_batch(pa.py_buffer(batch.column(3)[row].as_py()), _SCHEMA)
        tasks = pa.repeat(pa.scalar(task), records.num_rows)
        yield Part(without_times(records), records.column(len(APPEND_SCHEMA)), tasks)
        begin = row + 1
    if begin < batch.num_rows:
        yield _plain(partition, batch.slice(begin))


def _plain(partition: TopicPartition, batch: pa.RecordBatch) -> Part:
    origins = origin_columns(partition, batch)
    records = pa.RecordBatch.from_arrays(batch.columns[1:], schema=APPEND_SCHEMA)
    return Part(records, origins.times, origins.tasks)


def _blocks(headers: pa.Array[Any]) -> list[tuple[int, str]]:
    """Return the rows that are blocks, and the task of each."""
    pairs = headers.flatten()
    names, contents = (pc.struct_field(pairs, [number]) for number in (0, 1))
    found: Any = pc.equal(names, BLOCK)
    rows: Any = pc.list_parent_indices(headers).filter(found)
    tasks = [task.decode() for task in contents.filter(found).to_pylist()]
    return list(zip(rows.to_pylist(), tasks, strict=True))


def _timed(partition: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_columns == len(_SCHEMA):
        return pa.RecordBatch.from_arrays(batch.columns, schema=_SCHEMA)
    numbered = pa.RecordBatch.from_arrays(
        [pa.arange(0, batch.num_rows), *batch.columns], names=["offset", *APPEND_SCHEMA.names]
    )
    times = origin_columns(partition, numbered).times
    return pa.RecordBatch.from_arrays([*batch.columns, times], schema=_SCHEMA)


def _by_size(batch: pa.RecordBatch, most: int) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Split off each record of more than so many bytes. Returns for each part whether it is one."""
    sizes: Any = pc.add(*(pc.fill_null(pc.binary_length(batch.column(number)), 0) for number in (1, 2)))
    begin = 0
    for row in pc.indices_nonzero(pc.greater(sizes, most)).to_pylist():
        if begin < row:
            yield False, batch.slice(begin, row - begin)
        yield True, batch.slice(row, 1)
        begin = row + 1
    if begin < batch.num_rows:
        yield False, batch.slice(begin)


def _split(batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
    """Return parts of about so many bytes, at most twice as many, each with its data as a block; None for a
    record that is larger alone, by its headers."""
    count = max(1, batch.num_rows * most // max(1, batch.nbytes))
    for begin in range(0, batch.num_rows, count):
        part = batch.slice(begin, count)
        data = part.serialize().to_pybytes()
        if len(data) <= 2 * most:
            yield part, data
        elif part.num_rows == 1:
            yield part, None
        else:
            yield from _split(part.slice(0, part.num_rows // 2), most)
            yield from _split(part.slice(part.num_rows // 2), most)
