"""Read committed records of assigned partitions.

librdkafka fetches ahead in the background. It reports the end of a partition by an event with an offset,
which is after the markers of finished transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.errors import LogError
from tidegate.log.kafka.error_mapping import translate_error, translated_errors
from tidegate.log.kafka.pages import ClientPages, Failure, Pages, Part
from tidegate.log.protocol import Fetched
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
        pages: Pages | None = None,
    ) -> None:
        """`bounds` returns the first and next offset of a partition, for the error about an offset out of
        range. `identify` requests the topics' uids: librdkafka would read on in a recreated topic as if it
        were the same. `pages` brings the consumer's records, in Python unless given."""
        self._consumer = consumer
        self._pages = pages or ClientPages(consumer)
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
            try:
                page = self._pages.poll(PAGE_RECORDS, timeout)
            except (SystemError, UnicodeDecodeError) as cause:
                if isinstance(cause, SystemError) and not isinstance(cause.__cause__, UnicodeDecodeError):
                    raise
                raise self._bad_header_name() from cause
        if page.failure is not None:
            self._fail(page.failure)
        return self._take(page.parts)

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
            self._pages.close()
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

    def _take(self, parts: Iterable[Part]) -> list[Fetched]:
        """Move the positions; the last event of each partition decides whether it is at its end."""
        fetched = []
        for partition, ended, offset, batch in parts:
            (self._ended.add if ended else self._ended.discard)(partition)
            if batch.num_rows or offset > self._positions[partition]:
                self._positions[partition] = offset
                fetched.append(Fetched(partition, batch, Offset(offset)))
        return fetched

    def _bad_header_name(self) -> LogError:
        return LogError(
            "bad-header-name",
            "a header of a record has a name that is not UTF-8, which Kafka's client for Python cannot read;"
            f" the record is in one of the topics {sorted({one.topic for one in self._positions})}",
            'install the module that docs/kafka.md names under "Read and write records faster":'
            " it replaces such characters",
        )

    def _fail(self, failure: Failure) -> None:
        partition, error = failure
        if partition is None:
            raise translate_error(error, "records cannot be read")
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
