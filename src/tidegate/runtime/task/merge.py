"""The order in which a task takes the records of its source partitions.

A record is taken only when every source partition has a buffered record or is at its end; then the smallest
of (timestamp, topic, offset) is taken. Live, the end is the committed end as of the last poll. Strict, for
replays, it is an offset pinned beforehand: the order then depends on the records alone, never on when they
were fetched. A strict task takes an internal partition in the order of `replay_sort`.

Partitions of commands are not merged. No record is taken before they were read up to the requested offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.protocol import Fetched
from tidegate.log.records import RawRecord
from tidegate.runtime.output.numbered_origins import one_by_one
from tidegate.runtime.task.replay_sort import SortedPartition
from tidegate.types import TopicPartition

RECORDS_AT_ONCE = 8192
"""That become Python objects at a time."""


class Merge:
    """The buffered records of one task."""

    def __init__(
        self,
        positions: Mapping[TopicPartition, int],
        pinned: Mapping[TopicPartition, int] | None,
        internal: Mapping[TopicPartition, int] | None = None,
        commands: Collection[TopicPartition] = (),
    ) -> None:
        """`internal` are the start offsets of the internal partitions that are sorted below their pins."""
        to_sort = internal or {}
        self._fetched = {**positions, **to_sort}
        self._buffers = {
            partition: _SortedBuffer(partition, to_sort[partition], position)
            if partition in to_sort
            else _Buffer(partition)
            for partition, position in positions.items()
        }
        self._merged = {one: buffer for one, buffer in self._buffers.items() if one not in commands}
        self._commands = {one: buffer for one, buffer in self._buffers.items() if one in commands}
        self._awaited = dict.fromkeys(self._commands, 0)
        self._only = next(iter(self._merged.values())) if len(self._merged) == 1 else None
        self._ended: set[TopicPartition] = set()
        self._pinned = dict(pinned) if pinned is not None else None

    @property
    def only(self) -> TopicPartition:
        """The source partition of a task that reads only one, commands aside."""
        [partition] = self._merged
        return partition

    @property
    def buffered(self) -> int:
        """How many records are buffered."""
        return sum(buffer.rows() for buffer in self._buffers.values())

    @property
    def buffered_bytes(self) -> int:
        """About how many bytes the buffered batches have; what is being sorted does not count."""
        return sum(buffer.bytes() for buffer in self._buffers.values())

    def feed(self, fetched: Fetched) -> None:
        """Buffer records that were fetched."""
        batch, buffer = fetched.batch, self._buffers[fetched.partition]
        if self._pinned is not None:
            below: Any = pc.sum(pc.less(batch.column(0), self._pinned[fetched.partition])).as_py()
            batch = batch.slice(0, below or 0)
        buffer.add(batch)
        self._fetched[fetched.partition] = fetched.next
        self._ended.discard(fetched.partition)
        if self._finished(fetched.partition):
            buffer.complete()

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the partitions that are at their committed end as of the last poll."""
        self._ended = set(partitions)

    def await_commands(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take no record before the commands below these offsets were read."""
        if self._pinned is None:
            self._awaited.update((one, end) for one, end in ends.items() if one in self._commands)

    def advance_commands(self, partition: TopicPartition, position: int) -> None:
        """Note that the reader of commands is at this position: whatever precedes it was fed."""
        self._fetched[partition] = max(self._fetched[partition], position)

    def commands_behind(self) -> bool:
        """Return whether commands have to be read before the next record."""
        if self._pinned is not None:
            return not all(self._finished(partition) for partition in self._commands)
        return any(self._fetched[partition] < end for partition, end in self._awaited.items())

    def command(self, partition: TopicPartition) -> RawRecord | None:
        """Return the next command of a partition; it stays until `take_command`."""
        return self._commands[partition].head()

    def take_command(self, partition: TopicPartition) -> None:
        self._commands[partition].pop()

    @property
    def take(self) -> Callable[[], RawRecord | None]:
        """A function that returns the next record, or None if that is not known yet."""
        return self._take if self._only is None else self._only.take

    def _take(self) -> RawRecord | None:
        best: _Buffer | None = None
        best_at: tuple[int, str, int] | None = None
        for partition, buffer in self._merged.items():
            head = buffer.head()
            if head is None:
                if not self._finished(partition):
                    return None
                continue
            at = (head.timestamp, partition.topic, head.offset)
            if best_at is None or at < best_at:
                best, best_at = buffer, at
        return None if best is None else best.pop()

    def take_batch(self, limit: int) -> pa.RecordBatch | None:
        """Return the next records as one batch of at most `limit`, for a task with one source partition that
        takes batches only. Records that were handed over in memory are not joined with others: they have a
        column more."""
        [buffer] = self._merged.values()
        return buffer.take_batch(limit)

    @property
    def in_batches(self) -> bool:
        """Whether all buffered records of a task with one source partition are in batches: none was taken out
        of its batch and waits to be processed."""
        return self._only is not None and self._only.in_batches()

    def put_back(self, batch: pa.RecordBatch) -> None:
        """Put back what is left of a batch that `take_batch` returned."""
        [buffer] = self._merged.values()
        buffer.put_back(batch)

    def done(self) -> bool:
        """Return whether a strict task has taken everything below its pinned offsets."""
        return all(not buffer and self._finished(partition) for partition, buffer in self._buffers.items())

    def buffered_in(self, partition: TopicPartition) -> int:
        """Return how many records of a partition are buffered."""
        return self._buffers[partition].rows()

    def will_take(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether buffered records of these partitions will be taken even if no more are fetched from
        them. A strict task may wait for records of another one."""
        waits = self._pinned is not None and self.needs_records()
        return not waits and any(self.buffered_in(partition) for partition in partitions)

    def read_to(self, partition: TopicPartition) -> int:
        """Return the next offset to fetch from a partition."""
        return self._fetched[partition]

    def needs_records(self) -> bool:
        """Return whether some partition has no buffered record and is not known to be at its end."""
        return self.commands_behind() or any(
            not buffer and not self._finished(partition) for partition, buffer in self._merged.items()
        )

    def _finished(self, partition: TopicPartition) -> bool:
        if self._pinned is not None:
            return self._fetched[partition] >= self._pinned[partition]
        return partition in self._ended


class _Buffer:
    """The fetched records of one partition. Batches are split when records are taken one by one."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._batches: deque[tuple[pa.RecordBatch, int]] = deque()
        """Each with its size, which is kept: Arrow adds up the buffers of all columns to find it."""
        self._records: deque[RawRecord] = deque()
        self._rows = self._bytes = 0
        """Of the batches."""

    def __bool__(self) -> bool:
        return bool(self._records or self._batches)

    def rows(self) -> int:
        return len(self._records) + self._rows

    def bytes(self) -> int:
        return self._bytes

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            size: int = batch.nbytes
            self._batches.append((batch, size))
            self._rows += batch.num_rows
            self._bytes += size

    def complete(self) -> None:
        """Called when the partition was fetched completely."""

    def head(self) -> RawRecord | None:
        if not self._records:
            if not self:
                return None
            self._records.extend(one_by_one(self._partition, self._first(RECORDS_AT_ONCE)))
        return self._records[0]

    def take(self) -> RawRecord | None:
        return self._records.popleft() if self._records or self.head() is not None else None

    def pop(self) -> RawRecord:
        return self._records.popleft()

    def in_batches(self) -> bool:
        return not self._records

    def put_back(self, batch: pa.RecordBatch) -> None:
        size: int = batch.nbytes
        self._batches.appendleft((batch, size))
        self._rows += batch.num_rows
        self._bytes += size

    def take_batch(self, limit: int) -> pa.RecordBatch | None:
        taken: list[pa.RecordBatch] = []
        room = limit
        while room and self and (not taken or self._batches[0][0].schema.equals(taken[0].schema)):
            taken.append(self._first(room))
            room -= taken[-1].num_rows
        return pa.concat_batches(taken) if len(taken) > 1 else next(iter(taken), None)

    def _first(self, most: int) -> pa.RecordBatch:
        """Take at most so many records of the first batch."""
        batch, size = self._batches.popleft()
        if batch.num_rows > most:
            rest = size * (batch.num_rows - most) // batch.num_rows
            self._batches.appendleft((batch.slice(most), rest))
            batch, size = batch.slice(0, most), size - rest
        self._rows -= batch.num_rows
        self._bytes -= size
        return batch


class _SortedBuffer(_Buffer):
    """An internal partition of a strict task: empty until all of it was fetched."""

    def __init__(self, partition: TopicPartition, start: int, position: int) -> None:
        super().__init__(partition)
        self._sorting: SortedPartition | None = SortedPartition(partition, start, position)
        self._sorted: Iterator[pa.RecordBatch] | None = None

    def __bool__(self) -> bool:
        while self._sorted is not None and not super().__bool__():
            batch = next(self._sorted, None)
            if batch is None:
                self._sorted = None
            else:
                super().add(batch)
        return super().__bool__()

    def add(self, batch: pa.RecordBatch) -> None:
        if self._sorting is not None:
            self._sorting.add(batch)

    def complete(self) -> None:
        if self._sorting is not None:
            self._sorted, self._sorting = self._sorting.batches(), None
