"""In which order a task takes the records of its source partitions.

A record is taken only when every source partition shows its head or is at its end; then the smallest of
(timestamp, topic, offset). Live, the end is the committed end as of the last poll. Strict, for replays, it is
an offset pinned beforehand: the order then depends on the records alone, never on when they were fetched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.log.protocol import Fetched
from tidegate.types import TopicPartition


class RawRecord(NamedTuple):
    """A record as it was read."""

    partition: TopicPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Merge:
    """The buffered records of one task."""

    def __init__(
        self, positions: Mapping[TopicPartition, int], pinned: Mapping[TopicPartition, int] | None
    ) -> None:
        self._buffers: dict[TopicPartition, deque[RawRecord]] = {
            partition: deque() for partition in positions
        }
        self._fetched = dict(positions)
        self._ended: set[TopicPartition] = set()
        self._pinned = dict(pinned) if pinned is not None else None
        self.buffered = 0

    def feed(self, fetched: Fetched) -> None:
        """Records that were read, in order."""
        end = None if self._pinned is None else self._pinned[fetched.partition]
        buffer = self._buffers[fetched.partition]
        for record in _records(fetched.partition, fetched.batch):
            if end is None or record.offset < end:
                buffer.append(record)
                self.buffered += 1
        self._fetched[fetched.partition] = fetched.next
        self._ended.discard(fetched.partition)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions that the last poll saw at their committed end; the others are not any more."""
        self._ended = set(partitions)

    def take(self) -> RawRecord | None:
        """The next record, or None if it is not known yet which that is."""
        best: deque[RawRecord] | None = None
        place: tuple[int, str, int] | None = None
        for partition, buffer in self._buffers.items():
            if not buffer:
                if not self._finished(partition):
                    return None
                continue
            head = buffer[0]
            at = (head.timestamp, partition.topic, head.offset)
            if place is None or at < place:
                best, place = buffer, at
        if best is None:
            return None
        self.buffered -= 1
        return best.popleft()

    def take_many(self, limit: int) -> list[RawRecord]:
        """The next records, at most `limit`: cheap for a task with one source partition."""
        if len(self._buffers) > 1:
            return [record for _ in range(limit) if (record := self.take()) is not None]
        [buffer] = self._buffers.values()
        taken = [buffer.popleft() for _ in range(min(limit, len(buffer)))]
        self.buffered -= len(taken)
        return taken

    def done(self) -> bool:
        """Strict: everything below the pinned offsets was taken."""
        return self.buffered == 0 and all(self._finished(partition) for partition in self._buffers)

    def read_to(self, partition: TopicPartition) -> int:
        """The offset behind what was fetched of a partition."""
        return self._fetched[partition]

    def hungry(self) -> bool:
        """Whether some partition shows no head and is not known to be at its end."""
        return any(
            not buffer and not self._finished(partition) for partition, buffer in self._buffers.items()
        )

    def _finished(self, partition: TopicPartition) -> bool:
        if self._pinned is not None:
            return self._fetched[partition] >= self._pinned[partition]
        return partition in self._ended


def _records(partition: TopicPartition, batch: pa.RecordBatch) -> Iterable[RawRecord]:
    columns: list[list[Any]] = [batch.column(number).to_pylist() for number in range(4)]
    headers = batch.column(4)
    if headers.null_count == len(headers):
        pairs: Iterable[Any] = [()] * len(headers)
    else:
        listed = headers.to_pylist()
        pairs = [tuple((pair["name"], pair["value"]) for pair in row) if row else () for row in listed]
    for offset, timestamp, key, value, own in zip(*columns, pairs, strict=True):
        yield RawRecord(partition, offset, timestamp, key, value, own)
