"""Reading committed records of assigned partitions.

librdkafka fetches ahead in the background. The end of a partition is known by an event that carries its
offset: that offset steps over the markers that transactions leave behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from tidegate.errors import LogError
from tidegate.log.kafka.error_mapping import in_words, translated_errors
from tidegate.log.kafka.zero_time import WRITTEN_AS, take_back
from tidegate.log.protocol import Fetched
from tidegate.log.records import READ_SCHEMA, Headers, columns_to_batch
from tidegate.types import Offset, TopicPartition

PAGE_RECORDS = 10_000
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
EMPTY = pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)

LOOK_SECONDS = 1.0

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
        """`bounds` tells what a partition holds now: asked for when something is out of range. `identify`
        asks which topics these are: of one that was made anew librdkafka would read on, as if it were the
        same."""
        self._consumer = consumer
        self._bounds = bounds
        self._positions: dict[TopicPartition, int] = dict(positions)
        self._ended: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._closed = False
        self._identity = _Identity({one.topic for one in positions}, identify)
        with translated_errors("partitions cannot be read"):
            consumer.assign(self._places(positions))

    def poll(self, timeout: float) -> list[Fetched]:
        self._identity.look()
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
            with translated_errors("partitions cannot be let go"):
                self._consumer.incremental_unassign(places)

    def _go_on(self, partitions: Iterable[TopicPartition]) -> None:
        if places := self._places(partitions):
            with translated_errors("partitions cannot be read"):
                self._consumer.incremental_assign(places)

    def _places(self, partitions: Iterable[TopicPartition]) -> list[Place]:
        return [Place(one.topic, one.partition, self._positions[one]) for one in partitions]

    def _take(self, messages: list[Any]) -> list[Fetched]:
        """In the order in which they came; the last event of a partition tells whether it is at its end."""
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
            batch = _batch(records[partition]) if partition in records else EMPTY
            if batch.num_rows or offset > self._positions[partition]:
                self._positions[partition] = offset
                fetched.append(Fetched(partition, batch, Offset(offset)))
        return fetched

    def _fail(self, message: Any, error: KafkaError) -> None:
        if message.topic() is None:
            raise in_words(error, "records cannot be read")
        partition = TopicPartition(message.topic(), message.partition())
        if error.code() not in _OUT_OF_RANGE:
            raise in_words(error, f"{partition} cannot be read")
        start, end = self._bounds(partition)
        if self._positions[partition] > end:
            raise LogError(
                "topic-recreated",
                f"{partition} ends at {end}; asked for was {self._positions[partition]}: it was deleted and"
                " created anew, or its broker lost records",
                "bring the old topic back, or start over with: tidegate reset",
            )
        raise LogError(
            "offset-out-of-range",
            f"{partition} holds offsets {start} to {end - 1}; asked for was {self._positions[partition]}",
            "history below the start was cut by retention or a purge; start from where the topic starts",
        )


class _Identity:
    """Whether topics are still the same ones: looked at now and then, without waiting for the answer."""

    def __init__(self, topics: Collection[str], identify: Identify) -> None:
        self._topics = topics
        self._identify = identify
        self._known: dict[str, str] = {}
        self._asked = identify(topics)
        self._due = 0.0

    def look(self) -> None:
        if time.monotonic() < self._due:
            return
        if not self._asked:
            self._asked = self._identify(self._topics)
        if not all(future.done() for future in self._asked.values()):
            return
        for topic, future in self._asked.items():
            if (
                future.exception() is None
                and self._known.setdefault(topic, future.result()) != future.result()
            ):
                raise LogError(
                    "topic-recreated",
                    f"topic {topic!r} was deleted and created anew while it was read",
                    "bring the old topic back, or start over with: tidegate reset",
                )
        self._asked = {}
        self._due = time.monotonic() + LOOK_SECONDS


def _runs(messages: list[Any]) -> Iterator[list[Any]]:
    """Neighbours of one partition; an event that is no record stands alone. librdkafka brings a partition's
    records in long runs, so most of the work is done by list comprehensions."""
    if not messages:
        return
    places = [(message.topic(), message.partition(), message.error() is None) for message in messages]
    begin = 0
    for end in range(1, len(messages) + 1):
        if end == len(messages) or places[end] != places[begin] or not places[begin][2]:
            yield messages[begin:end]
            begin = end


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
