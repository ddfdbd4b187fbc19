"""Access to the log under test, and helpers of the suite."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Protocol

from tidegate.log.protocol import Log, Reader
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, Row, rows_of
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

WAIT_SECONDS = 20.0


class LogBench(Protocol):
    """Access to the log under test."""

    def open(self) -> Log:
        """Return another handle on the same log, as another process would have. The bench closes it."""
        ...

    def compact(self, topic: str) -> None:
        """Trigger compaction of what is in the topic now, and return when it is done."""
        ...


def name() -> str:
    """Return a unique topic name: a broker is shared by many tests."""
    return f"t-{uuid.uuid4().hex[:12]}"


def now() -> int:
    return time.time_ns() // 1_000_000


def row(key: bytes | None, value: bytes | None, timestamp: int | None = None) -> Row:
    return Row(key, value, now() if timestamp is None else timestamp)


def make(log: Log, partitions: int = 1, **config: str) -> str:
    topic = name()
    log.create(TopicSpec(topic, partitions, {key.replace("_", "."): text for key, text in config.items()}))
    return topic


def read_all(log: Log, partition: TopicPartition) -> list[ReadRow]:
    start = log.describe(partition.topic).starts[partition.partition]
    end = log.ends([partition])[partition]
    return [found for batch in read_between(log, partition, start, end) for found in rows_of(batch)]


def values(rows: Iterable[ReadRow]) -> list[bytes | None]:
    return [found.value for found in rows]


def drain(reader: Reader, partition: TopicPartition, count: int) -> list[ReadRow]:
    """Poll until `count` records have arrived."""
    rows: list[ReadRow] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(rows) < count and time.monotonic() < deadline:
        for fetched in reader.poll(0.2):
            assert fetched.partition == partition
            rows.extend(rows_of(fetched.batch))
    return rows


def wait_for_end(reader: Reader, partition: TopicPartition) -> None:
    """Poll until the reader has seen the end."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not reader.at_end(partition) and time.monotonic() < deadline:
        reader.poll(0.05)
    assert reader.at_end(partition)
