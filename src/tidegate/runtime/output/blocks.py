"""Blocks: many records of an internal topic in one record of the log.

A replay writes to internal topics that only its own tasks read, each from the start to the end. So the
records of one task for one partition are written as blocks: the value is an Arrow stream with one batch,
the header `tidegate.block` has the name of the task. What a log does for each record it does once for a
block. Origins of whole batches are numbers in it (`numbered_origins`), not text to be written and parsed.

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
from tidegate.runtime.output.numbered_origins import (
    OUTPUT_SCHEMA,
    as_written,
    no_sources,
    repeated,
)
from tidegate.runtime.output.origin import origin_columns
from tidegate.types import TopicPartition

BLOCK = HEADER_PREFIX + "block"
BLOCK_BYTES = 256 << 10
LEAST_LIMIT = 16 << 10
"""Topics that take smaller records only get no blocks."""
LARGE = 4
"""A record of more than a fourth of a block is not put into one."""


class Part(NamedTuple):
    """Records of an internal topic, in the order of their offsets."""

    records: pa.RecordBatch
    """The columns of OUTPUT_SCHEMA."""
    tasks: pa.Array[Any]
    """The task that wrote each of them, of the type TEXTS."""


def packed(
    partition: TopicPartition, batches: Sequence[pa.RecordBatch], task: str, limit: int
) -> Iterator[pa.RecordBatch]:
    """Return the records that a task wrote to a partition as blocks. `limit` is the size of the largest
    record that the topic takes."""
    if limit < LEAST_LIMIT:
        for batch in batches:
            yield as_written(_numbered(partition, batch), task)
        return
    found = [_numbered(partition, batch) for batch in batches if batch.num_rows]
    if not found:
        return
    whole = found[0] if len(found) == 1 else pa.concat_batches(found)
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
            yield as_written(part, task)
    if blocks:
        yield to_batch(blocks)


def parts(partition: TopicPartition, batch: pa.RecordBatch) -> Iterator[Part]:
    """Return the records of a fetched batch (READ_SCHEMA), those of blocks and others."""
    begin = 0
    for row, task in _blocks(batch.column(4)):
        if begin < row:
            yield _plain(partition, batch.slice(begin, row - begin))
        with pa.ipc.open_stream(batch.column(3)[row].as_py()) as stream:
            records = stream.read_next_batch()
        yield Part(records, repeated(task, records.num_rows))
        begin = row + 1
    if begin < batch.num_rows:
        yield _plain(partition, batch.slice(begin))


def _plain(partition: TopicPartition, batch: pa.RecordBatch) -> Part:
    origins = origin_columns(partition, batch)
    columns = [*batch.columns[1:], origins.times, *no_sources(batch.num_rows)]
    records = pa.RecordBatch.from_arrays(columns, schema=OUTPUT_SCHEMA)
    return Part(records, origins.tasks.dictionary_encode())


def _blocks(headers: pa.Array[Any]) -> list[tuple[int, str]]:
    """Return the rows that are blocks, and the task of each."""
    pairs = headers.flatten()
    names, contents = (pc.struct_field(pairs, [number]) for number in (0, 1))
    found: Any = pc.equal(names, BLOCK)
    rows: Any = pc.list_parent_indices(headers).filter(found)
    tasks = [task.decode() for task in contents.filter(found).to_pylist()]
    return list(zip(rows.to_pylist(), tasks, strict=True))


def _numbered(partition: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_columns == len(OUTPUT_SCHEMA):
        return batch
    columns = batch.columns
    if len(columns) == len(APPEND_SCHEMA):
        read = pa.RecordBatch.from_arrays(
            [pa.arange(0, batch.num_rows), *columns], names=["offset", *APPEND_SCHEMA.names]
        )
        columns.append(origin_columns(partition, read).times)
    return pa.RecordBatch.from_arrays([*columns, *no_sources(batch.num_rows)], schema=OUTPUT_SCHEMA)


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
        data = _stream(part)
        if len(data) <= 2 * most:
            yield part, data
        elif part.num_rows == 1:
            yield part, None
        else:
            yield from _split(part.slice(0, part.num_rows // 2), most)
            yield from _split(part.slice(part.num_rows // 2), most)


def _stream(part: pa.RecordBatch) -> bytes:
    """A stream begins with its schema and with the names of the source partitions: a kilobyte and a half."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, OUTPUT_SCHEMA) as stream:
        stream.write_batch(part)
    data: bytes = sink.getvalue().to_pybytes()
    return data
