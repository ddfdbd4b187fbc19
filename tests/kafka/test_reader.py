"""What a reader makes of events in an order that a broker seldom brings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from tidegate.log.kafka.reader import KafkaReader
from tidegate.log.records import rows_of
from tidegate.types import Offset, TopicPartition

LINES = TopicPartition("lines", 0)


@dataclass(frozen=True)
class Event:
    """A record, or the end of the partition, as librdkafka reports it."""

    at: int
    is_end: bool = False

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None

    def topic(self) -> str:
        return LINES.topic

    def partition(self) -> int:
        return LINES.partition

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def headers(self) -> None:
        return None

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


@dataclass
class Script:
    """A client that brings what it was given, one list with each call."""

    pages: list[list[Event]] = field(default_factory=list)

    def assign(self, _: Any) -> None:
        """There is nothing to fetch."""

    def consume(self, _count: int, _timeout: float) -> list[Event]:
        return self.pages.pop(0)

    def close(self) -> None:
        """Nothing is open."""


def read(*events: Event) -> tuple[list[int], bool, int]:
    """The offsets of the records that one poll gives, whether the end was seen, and where the reader is."""
    script: Any = Script([list(events)])
    reader = KafkaReader(script, {LINES: Offset(0)}, lambda _: (0, 0), lambda _: {})
    found = [row.offset for fetched in reader.poll(0) for row in rows_of(fetched.batch)]
    return found, reader.at_end(LINES), reader.position(LINES)


def test_the_end_is_where_no_record_came_behind_it() -> None:
    assert read(Event(0), Event(2, is_end=True)) == ([0], True, 2)
    assert read(Event(2, is_end=True)) == ([], True, 2)
    assert read(Event(0)) == ([0], False, 1)


def test_a_record_after_the_end_means_that_the_end_is_not_reached() -> None:
    assert read(Event(0), Event(2, is_end=True), Event(2)) == ([0, 2], False, 3)
    assert read(Event(0, is_end=True), Event(0)) == ([0], False, 1)
    assert read(Event(0), Event(2, is_end=True), Event(2), Event(4, is_end=True)) == ([0, 2], True, 4)
