"""Read committed records of assigned partitions.

librdkafka fetches ahead in the background. It reports the end of a partition by an event with an offset,
which is after the markers of finished transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.errors import LogError
from tidegate.log.kafka.error_mapping import translate_error, translated_errors
from tidegate.log.kafka.zero_time import WRITTEN_AS, restore_zeros
from tidegate.log.protocol import Fetched
from tidegate.log.records import NO_RECORDS, READ_SCHEMA, Headers, columns_to_batch
from tidegate.types import Offset, TopicPartition

PAGE_RECORDS = 10_000
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)

CHECK_SECONDS = 1.0

Bounds = Callable[[TopicPartition], tuple[int, int]]
Identify = Callable[[Collection[str]], dict[str, "Future[str]"]]


class KafkaReader:
    """Reads some partitions, each from its position on."""

    def __init__(
        self,
        consumer: Consumer,
        positions: Mapping[TopicPartition, Offset],
        bounds: Bounds,
        identify: Identify,
    ) -> None:
        """`bounds` returns the first and next offset of a partition, for the error about an offset out of
        range. `identify` requests the topics' uids: librdkafka would read on in a recreated topic as if it
        were the same."""
        self._consumer = consumer
        self._bounds = bounds
        self._positions: dict[TopicPartition, int] = dict(positions)
        self._ended: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._closed = False
        self._identity = _Identity({one.topic for one in positions}, identify)
        with translated_errors("partitions cannot be read"):
            consumer.assign(self._assignments(positions))

    def poll(self, timeout: float) -> list[Fetched]:
        self._identity.check()
        with translated_errors("records cannot be read"):
            messages: list[Any] = self._consumer.consume(PAGE_RECORDS, 0.0)
            if not messages and timeout > 0:
                first = self._consumer.poll(timeout)
                if first is not None:
                    messages = [first, *self._consumer.consume(PAGE_RECORDS - 1, 0.0)]
        return self._take(messages)

    def position(self, partition: TopicPartition) -> Offset:
        return Offset(self._positions[partition])

    def at_end(self, partition: TopicPartition) -> bool:
        return partition in self._ended

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        self._positions[partition] = offset
        self._ended.discard(partition)
        if partition not in self._paused:
            self._unassign([partition])
            self._assign([partition])

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        paused = set(partitions)
        stopped, resumed = paused - self._paused, self._paused - paused
        self._paused = paused
        self._ended -= paused
        self._unassign(stopped)
        self._assign(resumed)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close()

    def _unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Unassign instead of using Kafka's pause, after which the end would not be reported again."""
        if assignments := self._assignments(partitions):
            with translated_errors("partitions cannot be unassigned"):
                self._consumer.incremental_unassign(assignments)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        if assignments := self._assignments(partitions):
            with translated_errors("partitions cannot be read"):
                self._consumer.incremental_assign(assignments)

    def _assignments(self, partitions: Iterable[TopicPartition]) -> list[KafkaPartition]:
        return [KafkaPartition(one.topic, one.partition, self._positions[one]) for one in partitions]

    def _take(self, messages: list[Any]) -> list[Fetched]:
        """Group messages by partition in their order; the last event of each decides whether it is at its
        end."""
        moved: dict[TopicPartition, int] = {}
        records: dict[TopicPartition, list[Any]] = {}
        for run in _runs(messages):
            partition = TopicPartition(run[0].topic(), run[0].partition())
            error = run[0].error()
            if error is None:
                self._ended.discard(partition)
                records.setdefault(partition, []).extend(run)
                moved[partition] = run[-1].offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(partition)
                moved[partition] = run[0].offset()
            else:
                self._fail(run[0], error)
        fetched = []
        for partition, offset in moved.items():
            batch = _batch(records[partition]) if partition in records else NO_RECORDS
            if batch.num_rows or offset > self._positions[partition]:
                self._positions[partition] = offset
                fetched.append(Fetched(partition, batch, Offset(offset)))
        return fetched

    def _fail(self, message: Any, error: KafkaError) -> None:
        if message.topic() is None:
            raise translate_error(error, "records cannot be read")
        partition = TopicPartition(message.topic(), message.partition())
        if error.code() not in _OUT_OF_RANGE:
            raise translate_error(error, f"{partition} cannot be read")
        start, end = self._bounds(partition)
        if self._positions[partition] > end:
            raise LogError(
                "topic-recreated",
                f"{partition} ends at {end}, but {self._positions[partition]} was requested: the topic was"
                " deleted and recreated, or its broker lost records",
                "restore the old topic, or start over with: tidegate reset",
            )
        raise LogError(
            "offset-out-of-range",
            f"{partition} holds offsets {start} to {end - 1}, but {self._positions[partition]} was requested",
            "older records were deleted by retention or a purge; start from the topic's first offset",
        )


class _Identity:
    """Checks from time to time, without blocking, that topics were not deleted and recreated."""

    def __init__(self, topics: Collection[str], identify: Identify) -> None:
        self._topics = topics
        self._identify = identify
        self._known: dict[str, str] = {}
        self._pending = identify(topics)
        self._due = 0.0

    def check(self) -> None:
        if time.monotonic() < self._due:
            return
        if not self._pending:
            self._pending = self._identify(self._topics)
        if not all(future.done() for future in self._pending.values()):
            return
        for topic, future in self._pending.items():
            if (
                future.exception() is None
                and self._known.setdefault(topic, future.result()) != future.result()
            ):
                raise LogError(
                    "topic-recreated",
                    f"topic {topic!r} was deleted and recreated while it was read",
                    "restore the old topic, or start over with: tidegate reset",
                )
        self._pending = {}
        self._due = time.monotonic() + CHECK_SECONDS


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
