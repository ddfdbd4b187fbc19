"""Records as Arrow batches: the one format in which records enter and leave a log.

Appended batches have APPEND_SCHEMA; the log adds the offset, so batches read have READ_SCHEMA.
Headers keep their order and may repeat; a null key or value is a real null (tombstone), not b"".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.names import HEADER_PREFIX
from tidegate.types import TopicPartition

FEW_ROWS = 256
"""Up to this many rows a Python loop is faster than an Arrow kernel."""

Headers = Sequence[tuple[str, bytes | None]]

HEADERS_TYPE = pa.list_(pa.struct([pa.field("name", pa.string(), nullable=False), ("value", pa.binary())]))
APPEND_SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
READ_SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False), *APPEND_SCHEMA])
NO_RECORDS = pa.RecordBatch.from_arrays(
    [pa.nulls(0, field.type) for field in READ_SCHEMA], schema=READ_SCHEMA
)
"""An empty batch. Not made from lists: pyarrow would import pandas for that, which takes a third of the time
in which a command starts."""


class Row(NamedTuple):
    """One record as bytes, before it has an offset."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class ReadRow(NamedTuple):
    """One record as bytes, read from a log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RawRecord(NamedTuple):
    """A record as it was read."""

    partition: TopicPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def to_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Build one batch for a writer from rows."""
    listed = list(rows)
    return columns_to_batch(
        [row.timestamp for row in listed],
        [row.key for row in listed],
        [row.value for row in listed],
        [row.headers for row in listed] if any(row.headers for row in listed) else None,
    )


def columns_to_batch(
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers] | None = None,
) -> pa.RecordBatch:
    """Build one batch for a writer from columns; fastest without any headers."""
    count = len(timestamps)
    if headers is None:
        encoded: pa.Array[Any] = no_headers(count)
    else:
        encoded = header_column(headers)
    columns = [
        pa.array(timestamps, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        encoded,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=APPEND_SCHEMA)


@lru_cache(64)
def no_headers(count: int) -> pa.Array[Any]:
    """Return the header column of records without headers."""
    return pa.nulls(count, HEADERS_TYPE)


def time_bounds(timestamps: pa.Array[Any]) -> tuple[int, int]:
    """Return the earliest and the latest of some timestamps."""
    if len(timestamps) <= FEW_ROWS:
        times: list[Any] = timestamps.to_pylist()
        return min(times), max(times)
    bounds: Any = pc.min_max(timestamps)
    return bounds[0].as_py(), bounds[1].as_py()


def header_column(headers: Sequence[Headers]) -> pa.Array[Any]:
    """Build the header column from flat name and value arrays: several times faster than from dicts."""
    if len(headers) > 1 and headers[0] is headers[-1] and headers.count(headers[0]) == len(headers):
        return header_column(headers[:1]).take(pa.nulls(len(headers), pa.int32()).fill_null(0))
    ends = list(accumulate(map(len, headers), initial=0))
    offsets: list[int | None] = [start if own else None for start, own in zip(ends, headers, strict=False)]
    offsets.append(ends[-1])
    pairs = [pair for own in headers for pair in own]
    parts = [
        pa.array([name for name, _ in pairs], pa.string()),
        pa.array([value for _, value in pairs], pa.binary()),
    ]
    structs = pa.StructArray.from_arrays(parts, fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=HEADERS_TYPE)


def rows_of(batch: pa.RecordBatch) -> Iterator[ReadRow]:
    """Yield the rows of a batch that a reader returned."""
    headers = batch.column(4)
    header_rows: Iterable[Any] = (
        headers.to_pylist() if headers.null_count < len(headers) else [None] * len(headers)
    )
    columns = (batch.column(i).to_pylist() for i in range(4))
    for offset, timestamp, key, value, pairs in zip(*columns, header_rows, strict=True):
        named = tuple((pair["name"], pair["value"]) for pair in pairs) if pairs else ()
        yield ReadRow(offset, timestamp, key, value, named)


def raw_records(partition: TopicPartition, batch: pa.RecordBatch) -> Iterable[RawRecord]:
    """Yield the records of a batch one by one."""
    columns: list[list[Any]] = [batch.column(number).to_pylist() for number in range(4)]
    headers = batch.column(4)
    if headers.null_count == len(headers):
        pairs: Iterable[Any] = [()] * len(headers)
    else:
        listed = headers.to_pylist()
        pairs = [tuple((pair["name"], pair["value"]) for pair in row) if row else () for row in listed]
    for offset, timestamp, key, value, own in zip(*columns, pairs, strict=True):
        yield RawRecord(partition, offset, timestamp, key, value, own)


def own_headers(raw: RawRecord) -> tuple[tuple[str, bytes | None], ...]:
    """Return the record's own headers, without those that tidegate added."""
    if not raw.headers:
        return ()
    return tuple(pair for pair in raw.headers if not pair[0].startswith(HEADER_PREFIX))
