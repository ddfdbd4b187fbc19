"""What one poll of a consumer brought, sorted by partition: in Python, the twin of `bulk.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError

from tidegate.log.kafka.zero_time import WRITTEN_AS, restore_zeros
from tidegate.log.records import NO_RECORDS, READ_SCHEMA, Headers, columns_to_batch
from tidegate.types import TopicPartition


class Part(NamedTuple):
    """What a page has of one partition. `ended`: its last event was the partition's end, not a record;
    `next` is the offset after that event."""

    partition: TopicPartition
    ended: bool
    next: int
    batch: pa.RecordBatch


class Failure(NamedTuple):
    """An error that a consumer reported in place of a record; `partition` is None if it belongs to none."""

    partition: TopicPartition | None
    error: KafkaError


class Page(NamedTuple):
    """Partitions in the order in which they first came. After a failure the reader raises: none counts."""

    parts: list[Part]
    failure: Failure | None = None


class Pages(Protocol):
    """Brings the events of a consumer."""

    def poll(self, room: int, timeout: float) -> Page:
        """Return up to `room` events; wait up to `timeout` seconds for the first."""
        ...

    def close(self) -> None:
        """Leave the consumer as it was found, so that it can be closed."""
        ...


class ClientPages:
    """Takes messages from the client, one object each."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def poll(self, room: int, timeout: float) -> Page:
        messages: list[Any] = self._consumer.consume(room, 0.0)
        if not messages and timeout > 0:
            first = self._consumer.poll(timeout)
            if first is not None:
                messages = [first, *self._consumer.consume(room - 1, 0.0)]
        return page_of(messages)

    def close(self) -> None:
        """Nothing was changed."""


def page_of(messages: list[Any]) -> Page:
    """Group messages by partition in their order, up to the first that is an error."""
    last: dict[TopicPartition, tuple[bool, int]] = {}
    records: dict[TopicPartition, list[Any]] = {}
    failure: Failure | None = None
    for run in _runs(messages):
        error = run[0].error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            failure = Failure(_partition_of(run[0]), error)
            break
        partition = TopicPartition(run[0].topic(), run[0].partition())
        if error is None:
            records.setdefault(partition, []).extend(run)
            last[partition] = False, run[-1].offset() + 1
        else:
            last[partition] = True, run[0].offset()
    parts = [
        Part(partition, ended, offset, _batch(records[partition]) if partition in records else NO_RECORDS)
        for partition, (ended, offset) in last.items()
    ]
    return Page(parts, failure)


def _partition_of(message: Any) -> TopicPartition | None:
    return None if message.topic() is None else TopicPartition(message.topic(), message.partition())


def _runs(messages: list[Any]) -> Iterator[list[Any]]:
    """Split messages into runs of one partition; an event that is not a record is a run of its own.
    librdkafka delivers a partition's records in long runs, so list comprehensions do most of the work."""
    if not messages:
        return
    keys = [(message.topic(), message.partition(), message.error() is None) for message in messages]
    begin = 0
    for end in range(1, len(messages) + 1):
        if end == len(messages) or keys[end] != keys[begin] or not keys[begin][2]:
            yield messages[begin:end]
            begin = end


def _batch(messages: list[Any]) -> pa.RecordBatch:
    timestamps = [message.timestamp()[1] for message in messages]
    found = [message.headers() for message in messages]
    headers: list[Headers] | None = [each or () for each in found] if any(found) else None
    if headers is not None and WRITTEN_AS in timestamps:
        restore_zeros(timestamps, headers)
    keys = [message.key() for message in messages]
    batch = columns_to_batch(timestamps, keys, [message.value() for message in messages], headers)
    offsets = pa.array([message.offset() for message in messages], pa.int64())
    return pa.RecordBatch.from_arrays([offsets, *batch.columns], schema=READ_SCHEMA)
