"""What a topic refuses, checked before anything is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConfigError, LogError
from tidegate.log.records import APPEND_SCHEMA
from tidegate.log.topic import LATEST_TIMESTAMP, TopicInfo

RECORD_OVERHEAD = 64


def check_batch(info: TopicInfo, partition: int, batch: pa.RecordBatch, now: int) -> None:
    """Raise for a batch of which the topic cannot take every record."""
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
        raise LogError(
            "null-key",
            f"topic {info.name!r} keeps one row per key, so a record without key cannot be kept",
            "give the record a key, or use an event topic",
        )
    if batch.num_rows:
        _check_times(info, batch, now)
        _check_sizes(info, batch)


def _check_times(info: TopicInfo, batch: pa.RecordBatch, now: int) -> None:
    bounds: Any = pc.min_max(batch.column(0)).as_py()
    latest = min(LATEST_TIMESTAMP, now + info.setting("message.timestamp.after.max.ms"))
    earliest = max(0, now - info.setting("message.timestamp.before.max.ms"))
    for value in (bounds["min"], bounds["max"]):
        if not earliest <= value <= latest:
            raise LogError(
                "bad-timestamp",
                f"timestamp {value} ms is outside of {earliest} to {latest}, which topic {info.name!r} takes",
                "give milliseconds since 1970, or raise message.timestamp.after.max.ms of the topic",
            )


def _check_sizes(info: TopicInfo, batch: pa.RecordBatch) -> None:
    limit = info.setting("max.message.bytes")
    if batch.nbytes + RECORD_OVERHEAD <= limit or _largest_at_most(batch) <= limit:
        return
    for index in range(batch.num_rows):
        size = batch.slice(index, 1).nbytes + RECORD_OVERHEAD
        if size > limit:
            raise LogError(
                "record-too-large",
                f"record {index} has {size} bytes; topic {info.name!r} takes at most {limit}",
                "send less in one record, or raise max.message.bytes of the topic",
            )


def _largest_at_most(batch: pa.RecordBatch) -> int:
    """No record is larger than this: cheap, and exact enough to pass a bulk load without a loop."""
    key, value, headers = batch.column(1), batch.column(2), batch.column(3)
    lengths: Any = pc.add(pc.fill_null(pc.binary_length(key), 0), pc.fill_null(pc.binary_length(value), 0))
    all_headers = 0 if headers.null_count == len(headers) else headers.nbytes
    return int(pc.max(lengths).as_py()) + all_headers + RECORD_OVERHEAD
