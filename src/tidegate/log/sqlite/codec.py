"""Encode batches as bytes: a compressed Arrow IPC message without schema, with a separate checksum.

A fresh batch has dense offsets, so none are stored; a compacted one has gaps, so it stores each record's
distance from the first offset of its span. Records without headers store no header column.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.records import APPEND_SCHEMA, HEADERS_TYPE, READ_SCHEMA, time_bounds

SPARSE, WITH_HEADERS, LZ4, ZSTD = 1, 2, 4, 8

_BARE = pa.schema(list(APPEND_SCHEMA)[:3])
_DISTANCE = pa.field("distance", pa.int64(), nullable=False)
_SCHEMAS = {
    0: _BARE,
    WITH_HEADERS: APPEND_SCHEMA,
    SPARSE: pa.schema([_DISTANCE, *_BARE]),
    SPARSE | WITH_HEADERS: pa.schema([_DISTANCE, *APPEND_SCHEMA]),
}
NO_DATA = pa.py_buffer(b"")
_lz4 = pa.Codec("lz4_raw")
_zstd = pa.Codec("zstd", 1)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded batch; `data` is NO_DATA once it is stored."""

    data: pa.Buffer
    size: int
    checksum: int
    kind: int
    raw: int
    count: int
    max_timestamp: int
    tombstones: int


def encode(batch: pa.RecordBatch) -> Encoded:
    """Encode a fresh batch (APPEND_SCHEMA), whose offsets will be dense, with fast compression: a caller is
    waiting."""
    return _encode(batch, 0, LZ4)


def encode_sparse(batch: pa.RecordBatch, base: int) -> Encoded:
    """Encode the records that compaction kept (READ_SCHEMA); `base` is the first offset of their span. They
    stay for long and nobody waits for it, so compression is strong."""
    distance = pc.subtract(batch.column(0), pa.scalar(base, pa.int64()))
    columns = [distance, *batch.columns[1:]]
    return _encode(pa.RecordBatch.from_arrays(columns, schema=_SCHEMAS[SPARSE | WITH_HEADERS]), SPARSE, ZSTD)


def _encode(batch: pa.RecordBatch, kind: int, compression: int) -> Encoded:
    headers = batch.column(batch.num_columns - 1)
    if headers.null_count == len(headers):
        batch = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=_SCHEMAS[kind])
    else:
        kind |= WITH_HEADERS
    message = batch.serialize()
    data = (_zstd if compression == ZSTD else _lz4).compress(message)
    if data.size < message.size:
        kind |= compression
    else:
        data = message
    timestamps = batch.column(batch.schema.get_field_index("timestamp"))
    return Encoded(
        data,
        data.size,
        zlib.crc32(data),
        kind,
        message.size,
        batch.num_rows,
        time_bounds(timestamps)[1],
        batch.column(batch.schema.get_field_index("value")).null_count,
    )


def decode(data: bytes | pa.Buffer, kind: int, raw: int, base: int) -> pa.RecordBatch:
    """Decode a stored batch, with its offsets (READ_SCHEMA). The caller has checked the checksum."""
    buffer = pa.py_buffer(data)
    if kind & (LZ4 | ZSTD):
        buffer = (_zstd if kind & ZSTD else _lz4).decompress(buffer, decompressed_size=raw)
    batch = pa.ipc.read_record_batch(buffer, _SCHEMAS[kind & (SPARSE | WITH_HEADERS)])
    columns = batch.columns
    offsets = (
        pc.add(columns.pop(0), pa.scalar(base, pa.int64()))
        if kind & SPARSE
        else pa.arange(base, base + batch.num_rows)
    )
    if not kind & WITH_HEADERS:
        columns.append(pa.nulls(batch.num_rows, HEADERS_TYPE))
    return pa.RecordBatch.from_arrays([offsets, *columns], schema=READ_SCHEMA)
