"""Check records against their topic before anything is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConfigError, LogError
from tidegate.log.records import APPEND_SCHEMA, Headers, time_bounds
from tidegate.log.topic import LATEST_TIMESTAMP, TopicInfo

RECORD_OVERHEAD = 64
HEADER_BYTES = 2048
"""More than the headers that tidegate adds to a record."""


def check_batch(info: TopicInfo, partition: int, batch: pa.RecordBatch, now: int) -> int:
    """Return the batch's size in bytes; raise if the topic cannot take every record of it."""
    if not 0 <= partition < info.partitions:
        raise LogError(
            "no-such-partition",
            f"topic {info.name!r} has partitions 0 to {info.partitions - 1}, not {partition}",
            "use the partition that the key maps to, or describe the topic first",
        )
    if batch.schema != APPEND_SCHEMA:
        raise ConfigError(
            "bad-batch",
            f"a batch with the columns {batch.schema.names} is not a batch of records",
            "build it with to_batch",
        )
    if info.compacts and batch.column(1).null_count:
        raise _null_key(info)
    size: int = batch.nbytes
    if batch.num_rows:
        _check_times(info, batch, now)
        _check_sizes(info, batch, size)
    return size


class RowCheck:
    """Checks single records against a topic whose limits are looked up once: this runs for every record."""

    def __init__(self, info: TopicInfo) -> None:
        self._info = info
        self._compacts = info.compacts
        self._largest = info.setting("max.message.bytes")
        self._after = info.setting("message.timestamp.after.max.ms")
        self._before = info.setting("message.timestamp.before.max.ms")

    def size(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, now: int) -> int:
        """Return the record's size; raise if the topic cannot take it."""
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

    def takes_all(
        self, keys: pa.Array[Any], values: pa.Array[Any], timestamps: pa.Array[Any], now: int
    ) -> bool:
        """Return whether the topic surely takes records with any of these keys and any of these values, if
        their headers are at most HEADER_BYTES long."""
        if keys.null_count or _longest(keys) + _longest(values) > self._largest - HEADER_BYTES:
            return False
        first, last = time_bounds(timestamps)
        return max(0, now - self._before) <= first and last <= min(LATEST_TIMESTAMP, now + self._after)

    def sizes(self, batch: pa.RecordBatch, now: int) -> int:
        """Return the size of a whole batch; raise if the topic cannot take one of its records."""
        if self._compacts and batch.column(1).null_count:
            raise _null_key(self._info)
        _check_times(self._info, batch, now)
        if not _surely_fits(batch, self._largest) and (largest := _largest(batch)) > self._largest:
            raise _too_large(self._info, 0, largest)
        size: int = batch.nbytes + RECORD_OVERHEAD * batch.num_rows
        return size


def _check_times(info: TopicInfo, batch: pa.RecordBatch, now: int) -> None:
    first, last = time_bounds(batch.column(0))
    _check_time(info, first, now)
    _check_time(info, last, now)


def _check_time(info: TopicInfo, timestamp: int, now: int) -> None:
    latest = min(LATEST_TIMESTAMP, now + info.setting("message.timestamp.after.max.ms"))
    earliest = max(0, now - info.setting("message.timestamp.before.max.ms"))
    if not earliest <= timestamp <= latest:
        raise LogError(
            "bad-timestamp",
            f"timestamp {timestamp} ms is outside the range {earliest} to {latest} of topic {info.name!r}",
            "use milliseconds since 1970, or raise message.timestamp.after.max.ms of the topic",
        )


def _null_key(info: TopicInfo) -> LogError:
    return LogError(
        "null-key",
        f"topic {info.name!r} is compacted, so it cannot take a record without a key",
        "set a key on the record, or use an event topic",
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
    if total + RECORD_OVERHEAD <= limit or _surely_fits(batch, limit) or _largest(batch) <= limit:
        return
    for index in range(batch.num_rows):
        size = batch.slice(index, 1).nbytes + RECORD_OVERHEAD
        if size > limit:
            raise _too_large(info, index, size)


def _surely_fits(batch: pa.RecordBatch, limit: int) -> bool:
    """Return whether even a record with the longest key, the longest value and the longest headers of the
    batch is within the limit: far cheaper than the size of each record."""
    headers: Any = batch.column(3)
    size = RECORD_OVERHEAD + _longest(batch.column(1)) + _longest(batch.column(2))
    if headers.null_count < len(headers):
        pairs, most = headers.flatten(), pc.max(pc.list_value_length(headers)).as_py()
        size += most * (16 + _longest(pairs.field(0)) + _longest(pairs.field(1)))
    return size <= limit


def _longest(column: Any) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


def _largest(batch: pa.RecordBatch) -> int:
    """Return the size of the largest record, without a Python loop, so that bulk loads stay fast."""
    key, value, headers = batch.column(1), batch.column(2), batch.column(3)
    lengths: Any = pc.add(_lengths(key), _lengths(value))
    if headers.null_count < len(headers):
        lengths = pc.add(lengths, _header_lengths(headers))
    return int(pc.max(lengths).as_py()) + RECORD_OVERHEAD


def _lengths(column: Any) -> Any:
    return pc.cast(pc.fill_null(pc.binary_length(column), 0), pa.int64())


def _header_lengths(headers: Any) -> Any:
    """Return the bytes of each record's headers, as differences of a running sum."""
    pairs, offsets = headers.values, headers.offsets
    each = pc.add(pc.add(_lengths(pairs.field(0)), _lengths(pairs.field(1))), 16)
    running = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(each)])
    return pc.subtract(running.take(offsets[1:]), running.take(offsets[:-1]))
