"""The rows that gate queries read: from the changelogs themselves, or from replicas of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tidegate.log.protocol import Log
from tidegate.log.reads import fold, read_between
from tidegate.log.records import rows_of
from tidegate.types import TopicPartition

TAIL = 100
"""How many records at the end of a partition are read first."""


class Rows(Protocol):
    """Changelogs and audit topics at one point in time."""

    def get(self, topic: str, partition: int, key: bytes) -> bytes | None:
        """Return the row of a key."""
        ...

    def scan(self, topic: str, partition: int, after: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Yield all rows in the order of their keys, only those after a key."""
        ...

    def history(self, topic: str, key: bytes) -> Iterator[bytes]:
        """Yield all values that were ever written under a key, oldest first within a partition."""
        ...


class FoldedRows:
    """Rows that are read from the log when they are requested, and kept."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._tables: dict[TopicPartition, dict[bytes, bytes]] = {}
        self._tails: dict[TopicPartition, dict[bytes, bytes | None]] = {}

    def get(self, topic: str, partition: int, key: bytes) -> bytes | None:
        """Return the row of a key. A recently written row is found without reading all the others."""
        tail = self._tail(TopicPartition(topic, partition))
        return tail[key] if key in tail else self._table(topic, partition).get(key)

    def scan(self, topic: str, partition: int, after: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        for key, value in sorted(self._table(topic, partition).items()):
            if after is None or key > after:
                yield key, value

    def history(self, topic: str, key: bytes) -> Iterator[bytes]:
        info = self._log.describe(topic)
        for number in range(info.partitions):
            partition = TopicPartition(topic, number)
            end = self._log.ends([partition])[partition]
            for batch in read_between(self._log, partition, info.starts[number], end):
                for row in rows_of(batch):
                    if row.key == key and row.value is not None:
                        yield row.value

    def _tail(self, partition: TopicPartition) -> dict[bytes, bytes | None]:
        if partition not in self._tails:
            start = self._log.describe(partition.topic).starts[partition.partition]
            end = self._log.ends([partition])[partition]
            batches = read_between(self._log, partition, max(start, end - TAIL), end)
            rows = (row for batch in batches for row in rows_of(batch))
            self._tails[partition] = {row.key: row.value for row in rows if row.key is not None}
        return self._tails[partition]

    def _table(self, topic: str, number: int) -> dict[bytes, bytes]:
        partition = TopicPartition(topic, number)
        if partition not in self._tables:
            rows = fold(self._log, partition).items()
            self._tables[partition] = {key: value for key, (value, _) in rows}
        return self._tables[partition]
