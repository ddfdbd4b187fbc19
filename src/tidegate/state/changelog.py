"""A store's changelog: the topic's settings, and the conversion between rows and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConfigError, StateError
from tidegate.log.records import APPEND_SCHEMA, no_headers
from tidegate.log.topic import MAX_RECORD_BYTES, TopicSpec, check_config
from tidegate.state.cached import RowChange
from tidegate.state.formats import TIME_BYTES, Format
from tidegate.state.protocol import RawRow

DELETE_RETENTION_MS = 30 * 24 * 3600 * 1000
LEAST_DELETE_RETENTION_MS = 3600 * 1000
"""A restore may take half of it, and a folder may be idle for half of it (docs/state.md)."""
_BEHIND_ANY_VALUE = (1 << 31) - 1
_RESERVED = ("cleanup.policy", "retention.ms", "retention.bytes")


def check_changelog_config(store: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the user's settings for a changelog; raise ConfigError for those that would lose rows."""
    for name in _RESERVED:
        if name in config:
            raise ConfigError(
                "bad-changelog-config",
                f"store {store!r}: {name} of a changelog cannot be set, because rows would be lost",
                "remove it; window and session stores expire by their own retention",
            )
    checked = check_config(config)
    kept = int(config.get("delete.retention.ms", DELETE_RETENTION_MS))
    if kept < LEAST_DELETE_RETENTION_MS:
        raise ConfigError(
            "bad-changelog-config",
            f"store {store!r}: delete.retention.ms = {kept} keeps tombstones for less than an hour; a restore"
            " that takes longer than half of it cannot end",
            f"set it to {LEAST_DELETE_RETENTION_MS} or more, or remove it for the default of 30 days",
        )
    return checked


def changelog_spec(
    topic: str, partitions: int, config: Mapping[str, str], largest_record: int = MAX_RECORD_BYTES
) -> TopicSpec:
    """Return the spec of the topic: compacted, tombstones kept for 30 days, any timestamp accepted."""
    settings = {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(DELETE_RETENTION_MS),
        "message.timestamp.after.max.ms": str(2**63 - 1),
        "max.message.bytes": str(largest_record + (64 << 10)),
        **config,
    }
    return TopicSpec(topic, partitions, settings)


def to_records(changes: Mapping[bytes, RowChange], layout: Format) -> pa.RecordBatch:
    """Convert the changes of a commit interval to changelog records."""
    values: Any = pa.array([value for value, _ in changes.values()], pa.binary())
    if layout.timestamped:
        values = pc.binary_slice(values, TIME_BYTES, _BEHIND_ANY_VALUE)
    times = pa.array([timestamp for _, timestamp in changes.values()], pa.int64())
    columns = [times, pa.array(list(changes), pa.binary()), values, no_headers(len(changes))]
    return pa.RecordBatch.from_arrays(columns, schema=APPEND_SCHEMA)


def to_rows(batch: pa.RecordBatch, layout: Format) -> list[RawRow]:
    """Convert changelog records, in their order, to rows of the store."""
    keys: list[Any] = batch.column(2).to_pylist()
    values: list[Any] = batch.column(3).to_pylist()
    if batch.column(2).null_count or (layout.suffix and any(len(key) < layout.suffix for key in keys)):
        raise StateError(
            "bad-changelog",
            "a changelog holds a record whose key no store can have written",
            "only tidegate may write to changelogs; restore the topic from a copy",
        )
    if layout.timestamped:
        times = batch.column(1).to_pylist()
        values = [layout.restored(value, at) for value, at in zip(values, times, strict=True)]
    return list(zip(keys, values, strict=True))
