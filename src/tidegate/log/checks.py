"""What a topic refuses, checked before anything is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConfigError, LogError
from tidegate.log.records import APPEND_SCHEMA, Headers
from tidegate.log.topic import LATEST_TIMESTAMP, TopicInfo

RECORD_OVERHEAD = 64
FEW_ROWS = 256
"""Up to here Python is as fast as a call of Arrow."""


def check_batch(info: TopicInfo, partition: int, batch: pa.RecordBatch, now: int) -> int:
    """Raise for a batch of which the topic cannot take every record; else its size in bytes."""
    if not 0 <= partition < info.partitions:
        raise LogError(
            "no-such-partition",
            f"topic {info.name!r} has partitions 0 to {info.partitions - 1}, not {partition}",
            "use the partition of the key, or describe the topic first",
        )
    if batch.schema != APPEND_SCHEMA:
        raise ConfigError(
            "bad-batch", f"a batch of {batch.schema.names} is no batch of records", "build it with to_batch"
        )
    if info.compacts and batch.column(1).null_count:
        raise _null_key(info)
    size: int = batch.nbytes
    if batch.num_rows:
        _check_times(info, batch, now)
        _check_sizes(info, batch, size)
    return size


class RowCheck:
    """What a topic takes, looked up once: asked for every single record."""

    def __init__(self, info: TopicInfo) -> None:
        self._info = info
        self._compacts = info.compacts
        self._largest = info.setting("max.message.bytes")
        self._after = info.setting("message.timestamp.after.max.ms")
        self._before = info.setting("message.timestamp.before.max.ms")

    def size(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, now: int) -> int:
        """Raise for a record that the topic cannot take; else its size."""
        size = RECORD_OVERHEAD
        if key is not None:
            size += len(key)
        elif self._compacts:
            raise _null_key(self._info)
        if value is not None:
            size += len(value)
        for name, data in headers:
            size += len(name) + 16 if data is None else len(name) + len(data) + 16
        if size > self._largest:
            raise _too_large(self._info, 0, size)
        if not (now - self._before <= timestamp <= now + self._after and 0 <= timestamp <= LATEST_TIMESTAMP):
            _check_time(self._info, timestamp, now)
        return size

    def sizes(self, batch: pa.RecordBatch, now: int) -> int:
        """The same for a whole batch: raise if a record cannot be taken; else their size together."""
        if self._compacts and batch.column(1).null_count:
            raise _null_key(self._info)
        _check_times(self._info, batch, now)
        largest = _largest(batch)
        if largest > self._largest:
            raise _too_large(self._info, 0, largest)
        size: int = batch.nbytes + RECORD_OVERHEAD * batch.num_rows
        return size


def _check_times(info: TopicInfo, batch: pa.RecordBatch, now: int) -> None:
    column: Any = batch.column(0)
    if batch.num_rows <= FEW_ROWS:
        times = column.to_pylist()
        first, last = min(times), max(times)
    else:
        bounds: Any = pc.min_max(column)
        first, last = bounds[0].as_py(), bounds[1].as_py()
    _check_time(info, first, now)
    _check_time(info, last, now)


def _check_time(info: TopicInfo, timestamp: int, now: int) -> None:
    latest = min(LATEST_TIMESTAMP, now + info.setting("message.timestamp.after.max.ms"))
    earliest = max(0, now - info.setting("message.timestamp.before.max.ms"))
    if not earliest <= timestamp <= latest:
        raise LogError(
            "bad-timestamp",
            f"timestamp {timestamp} ms is outside of {earliest} to {latest}, which topic {info.name!r} takes",
            "give milliseconds since 1970, or raise message.timestamp.after.max.ms of the topic",
        )


def _null_key(info: TopicInfo) -> LogError:
    return LogError(
        "null-key",
        f"topic {info.name!r} keeps one row per key, so a record without key cannot be kept",
        "give the record a key, or use an event topic",
    )


def _too_large(info: TopicInfo, index: int, size: int) -> LogError:
    limit = info.setting("max.message.bytes")
    return LogError(
        "record-too-large",
        f"record {index} has {size} bytes; topic {info.name!r} takes at most {limit}",
        "send less in one record, or raise max.message.bytes of the topic",
    )


def _check_sizes(info: TopicInfo, batch: pa.RecordBatch, total: int) -> None:
    limit = info.setting("max.message.bytes")
    if total + RECORD_OVERHEAD <= limit or _largest(batch) <= limit:
        return
    for index in range(batch.num_rows):
        size = batch.slice(index, 1).nbytes + RECORD_OVERHEAD
        if size > limit:
            raise _too_large(info, index, size)


def _largest(batch: pa.RecordBatch) -> int:
    """The size of the largest record: found without a loop, so that a bulk load passes at once."""
    key, value, headers = batch.column(1), batch.column(2), batch.column(3)
    lengths: Any = pc.add(_lengths(key), _lengths(value))
    if headers.null_count < len(headers):
        lengths = pc.add(lengths, _header_lengths(headers))
    return int(pc.max(lengths).as_py()) + RECORD_OVERHEAD


def _lengths(column: Any) -> Any:
    return pc.cast(pc.fill_null(pc.binary_length(column), 0), pa.int64())


def _header_lengths(headers: Any) -> Any:
    """Bytes of each record's headers: differences of their running sum."""
    pairs, offsets = headers.values, headers.offsets
    each = pc.add(pc.add(_lengths(pairs.field(0)), _lengths(pairs.field(1))), 16)
    running = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(each)])
    return pc.subtract(running.take(offsets[1:]), running.take(offsets[:-1]))
