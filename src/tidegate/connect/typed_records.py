"""Convert between typed values and the rows of a log, by a topic's declaration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.errors import ConfigError, LogError, SerdeError
from tidegate.log.names import check_header
from tidegate.log.records import Headers, ReadRow, Row
from tidegate.record import Record
from tidegate.topics import TableTopic, Topic
from tidegate.types import TopicPartition

TimeLike = int | datetime
"""Milliseconds since 1970, or a datetime with a time zone."""

MAX_CALL_BYTES = 1 << 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NULL_HINT = "declare a TableTopic if None means that the row is deleted"


def as_millis(time: TimeLike) -> int:
    """Convert a time to milliseconds since 1970; raise ConfigError `bad-timestamp` for anything else."""
    if isinstance(time, datetime) and time.utcoffset() is not None:
        time = (time - _EPOCH) // _MILLISECOND
    if isinstance(time, int) and not isinstance(time, bool) and -(1 << 63) <= time < 1 << 63:
        return time
    raise ConfigError(
        "bad-timestamp",
        f"{time!r} is not a time",
        "pass milliseconds since 1970 as an int, or a datetime with a time zone",
    )


def encoded(
    topic: Topic[Any, Any] | TableTopic[Any, Any],
    key: Any,
    values: tuple[Any, ...],
    recorded: int,
    headers: Headers,
) -> list[Row]:
    """Encode one row per value; raise if any of them cannot be encoded."""
    if not values:
        raise ConfigError(
            "no-value", f"nothing was sent to {topic.name!r}", "pass a value, or None to delete a row"
        )
    if isinstance(topic, Topic) and any(value is None for value in values):
        raise SerdeError(
            "null-value", f"topic {topic.name!r} holds events, and None is not an event", _NULL_HINT
        )
    checked = _checked_headers(headers)
    key_bytes = topic.encode_key(key)
    rows = [
        Row(key_bytes, topic.encode_value(value), topic.event_time(value, recorded), checked)
        for value in values
    ]
    if sum(len(row.key or b"") + len(row.value or b"") for row in rows) > MAX_CALL_BYTES:
        raise LogError(
            "too-much-at-once",
            f"one call cannot send more than {MAX_CALL_BYTES:,} bytes",
            "send fewer values in one call",
        )
    return rows


def _checked_headers(headers: Headers) -> Headers:
    for name, value in headers:
        check_header(name)
        if value is not None and not isinstance(value, bytes):
            raise ConfigError(
                "bad-header",
                f"header {name!r} has a {type(value).__name__} as its value",
                "use bytes or None",
            )
    return tuple(headers)


def decoded(
    topic: Topic[Any, Any] | TableTopic[Any, Any], partition: TopicPartition, row: ReadRow
) -> Record[Any, Any]:
    """Decode a record; raise SerdeError with its position if its bytes do not match the topic's types."""
    try:
        if row.value is None and isinstance(topic, Topic):
            raise SerdeError("null-value", "an event without a value", _NULL_HINT)  # noqa: TRY301
        key, value = topic.decode_key(row.key), topic.decode_value(row.value)
        timestamp = topic.event_time(value, row.timestamp)
    except SerdeError as error:
        raise error.at(*partition, row.offset) from error
    return Record(key, value, timestamp, row.headers, *partition, row.offset)
