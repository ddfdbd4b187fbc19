"""Reading committed records of assigned partitions.

librdkafka fetches ahead in the background. The end of a partition is known by an event that carries its
offset: that offset steps over the markers that transactions leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from tidegate.errors import LogError
from tidegate.log.kafka.words import in_our_words, in_words
from tidegate.log.kafka.zero_time import WRITTEN_AS, take_back
from tidegate.log.protocol import Fetched
from tidegate.log.records import READ_SCHEMA, Headers, columns_to_batch
from tidegate.types import Offset, TopicPartition

PAGE_RECORDS = 10_000
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
EMPTY = pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)

Bounds = Callable[[TopicPartition], tuple[int, int]]


class KafkaReader:
    """Reads some partitions, each from its position on."""

    def __init__(
        self, consumer: Consumer, positions: Mapping[TopicPartition, Offset], bounds: Bounds
    ) -> None:
        """`bounds` tells what a partition holds now: asked for when something is out of range."""
        self._consumer = consumer
        self._bounds = bounds
        self._positions: dict[TopicPartition, int] = dict(positions)
        self._ended: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._closed = False
        with in_our_words("partitions cannot be read"):
            consumer.assign(self._places(positions))

    def poll(self, timeout: float) -> list[Fetched]:
        with in_our_words("records cannot be read"):
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
            self._let_go([partition])
            self._go_on([partition])

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        paused = set(partitions)
        stopped, resumed = paused - self._paused, self._paused - paused
        self._paused = paused
        self._ended -= paused
        self._let_go(stopped)
        self._go_on(resumed)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close()

    def _let_go(self, partitions: Iterable[TopicPartition]) -> None:
        """Not Kafka's own pause: behind that the end would not be told again."""
        if places := self._places(partitions):
            with in_our_words("partitions cannot be let go"):
                self._consumer.incremental_unassign(places)

    def _go_on(self, partitions: Iterable[TopicPartition]) -> None:
        if places := self._places(partitions):
            with in_our_words("partitions cannot be read"):
                self._consumer.incremental_assign(places)

    def _places(self, partitions: Iterable[TopicPartition]) -> list[Place]:
        return [Place(one.topic, one.partition, self._positions[one]) for one in partitions]

    def _take(self, messages: list[Any]) -> list[Fetched]:
        """In the order in which they came; the last event of a partition tells whether it is at its end."""
        records: dict[tuple[str, int], list[Any]] = {}
        moved: dict[TopicPartition, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                where = (message.topic(), message.partition())
                found = records.get(where)
                if found is None:
                    found = records[where] = []
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                partition = TopicPartition(message.topic(), message.partition())
                self._ended.add(partition)
                moved[partition] = message.offset()
            else:
                self._fail(message, error)
        fetched = []
        for where, found in records.items():
            partition = TopicPartition(*where)
            behind, end = found[-1].offset() + 1, moved.pop(partition, 0)
            if end < behind:
                self._ended.discard(partition)
            self._positions[partition] = max(behind, end)
            fetched.append(Fetched(partition, _batch(found), Offset(self._positions[partition])))
        for partition, offset in moved.items():
            if offset > self._positions[partition]:
                self._positions[partition] = offset
                fetched.append(Fetched(partition, EMPTY, Offset(offset)))
        return fetched

    def _fail(self, message: Any, error: KafkaError) -> None:
        if message.topic() is None:
            raise in_words(error, "records cannot be read")
        partition = TopicPartition(message.topic(), message.partition())
        if error.code() not in _OUT_OF_RANGE:
            raise in_words(error, f"{partition} cannot be read")
        start, end = self._bounds(partition)
        raise LogError(
            "offset-out-of-range",
            f"{partition} holds offsets {start} to {end - 1}; asked for was {self._positions[partition]}",
            "history below the start was cut by retention or a purge; start from where the topic starts",
        )


def _batch(messages: list[Any]) -> pa.RecordBatch:
    timestamps = [message.timestamp()[1] for message in messages]
    found = [message.headers() for message in messages]
    headers: list[Headers] | None = [own or () for own in found] if any(found) else None
    if headers is not None and WRITTEN_AS in timestamps:
        take_back(timestamps, headers)
    keys = [message.key() for message in messages]
    batch = columns_to_batch(timestamps, keys, [message.value() for message in messages], headers)
    offsets = pa.array([message.offset() for message in messages], pa.int64())
    return pa.RecordBatch.from_arrays([offsets, *batch.columns], schema=READ_SCHEMA)
