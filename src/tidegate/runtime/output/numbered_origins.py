"""Origins of many records as numbers, in place of a header with a text for each.

Only internal topics of a replay have them, which nobody else reads. Two columns follow the times:

    source  the partition of the source record, as in an origin header: "topic/number/"
    at      the offset there; null if the origin is in the record's headers, as that of a timer's output is

The task is known from the block, and the sequence number is left out: a task writes its records in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.records import APPEND_SCHEMA, HEADERS_TYPE, READ_SCHEMA, RawRecord, raw_records
from tidegate.runtime.output.origin import ORIGIN, TIMED_SCHEMA, TIMES, header_of_each, origin_column
from tidegate.types import TopicPartition

TEXTS: Any = pa.dictionary(pa.int32(), pa.string())
"""The type of columns with few different texts."""
NUMBERED_SCHEMA = pa.schema([*TIMED_SCHEMA, ("source", TEXTS), ("at", pa.int64())])
OUTPUT_SCHEMA = pa.schema(list(NUMBERED_SCHEMA)[1:])
"""The columns of outputs, which have no offsets yet."""
_NO_TASK = "-"
"""In headers that are made for a reader, who needs the position and the time. The sequence number is 0."""


class Sources(NamedTuple):
    """The source records of many records."""

    source: pa.Array[Any]
    at: pa.Array[Any]

    def texts(self) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Return the parts of their positions, as in an origin header."""
        return pc.cast(self.source, pa.string()), self.at


def repeated(text: str, count: int) -> pa.Array[Any]:
    """Return a column with one text."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([text]))


def no_sources(count: int) -> Sources:
    """Return the columns of records whose origins are in their headers."""
    return Sources(pa.nulls(count, TEXTS), pa.nulls(count, pa.int64()))


def records_in(partition: TopicPartition, offsets: pa.Array[Any]) -> Sources:
    """Return the sources of records that were read from a partition."""
    return Sources(repeated(f"{partition}/", len(offsets)), offsets)


def sources_of(batch: pa.RecordBatch, rows: pa.Array[Any] | None) -> Sources | None:
    """Return the sources of these rows of a batch that was read, all if None. None if the headers of some
    have them."""
    if batch.num_columns < len(NUMBERED_SCHEMA):
        return None
    columns = [batch.column(TIMES + number) for number in (1, 2)]
    found = Sources(*(columns if rows is None else [column.take(rows) for column in columns]))
    return None if found.at.null_count else found


def numbered(
    timestamps: pa.Array[Any],
    keys: pa.Array[Any],
    values: pa.Array[Any],
    times: pa.Array[Any],
    sources: Sources,
) -> pa.RecordBatch:
    """Return outputs without headers, with their origins as numbers."""
    columns = [timestamps, keys, values, pa.nulls(len(timestamps), HEADERS_TYPE), times, *sources]
    return pa.RecordBatch.from_arrays(columns, schema=OUTPUT_SCHEMA)


def as_written(outputs: pa.RecordBatch, task: str) -> pa.RecordBatch:
    """Return outputs as records of the log: origins that are numbers become headers."""
    return pa.RecordBatch.from_arrays(_with_headers(outputs, APPEND_SCHEMA, task), schema=APPEND_SCHEMA)


def one_by_one(partition: TopicPartition, batch: pa.RecordBatch) -> Iterable[RawRecord]:
    """Yield the records of a batch that was read, each with its origin in its headers."""
    return raw_records(partition, with_headers(batch))


def with_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch that was read with all origins in the headers."""
    if batch.num_columns < len(NUMBERED_SCHEMA):
        return batch
    return pa.RecordBatch.from_arrays(_with_headers(batch, READ_SCHEMA, _NO_TASK), schema=READ_SCHEMA)


def _with_headers(batch: pa.RecordBatch, schema: pa.Schema, task: str) -> list[pa.Array[Any]]:
    before = batch.columns[: len(schema) - 1]
    headers, times, source, at = batch.columns[len(schema) - 1 :]
    if at.null_count == len(at):
        return [*before, headers]
    sequences: pa.Array[Any] = pa.repeat(pa.scalar(0, pa.int64()), len(at))
    made = header_of_each(ORIGIN, origin_column(Sources(source, at).texts(), task, sequences, times))
    if not at.null_count:
        return [*before, made]
    return [*before, pc.if_else(pc.is_valid(at), made, headers)]
