"""The records that a task writes, buffered until the commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.checks import RowCheck
from tidegate.log.partition_column import FEW_KEYS, partition_column
from tidegate.log.records import APPEND_SCHEMA, Headers, columns_to_batch
from tidegate.log.topic import TopicInfo
from tidegate.runtime.output.blocks import packed
from tidegate.runtime.output.origin import time_of
from tidegate.runtime.output.staged_rows import newest, staged
from tidegate.types import TopicPartition

REMEMBERED_KEYS = 100_000
JOINED_BYTES = 256 << 20
"""Up to this size rows of staging are folded together, and single records become one batch: no column may
reach 2 GiB."""

NumberedKeys: TypeAlias = "tuple[pa.Array[Any], pa.Array[Any]]"
"""The distinct keys of a batch, and for each record the index of its key."""


@dataclass(slots=True)
class _Waiting:
    """The pending records of one partition, or all of a topic that folds them, in order."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0

    def __len__(self) -> int:
        return self.rows

    def add_batch(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows

    def last_time(self) -> int | None:
        """Return the stream time in the origin of the last record; None if there is none."""
        if not self.batches:
            return None
        last = self.batches[-1]
        if last.num_columns > len(APPEND_SCHEMA):
            return int(last.column(len(APPEND_SCHEMA))[-1].as_py())
        pairs: Any = last.column(3)[-1].as_py()
        return time_of([(pair["name"], pair["value"]) for pair in pairs or ()])

    def cut(self, length: int) -> None:
        """Keep only the first `length` records."""
        while self.rows > length:
            last = self.batches.pop()
            self.rows -= last.num_rows
            if self.rows < length:
                self.batches.append(last.slice(0, length - self.rows))
                self.rows = length


class Target:
    """One topic that a task writes to, with its pending records by partition; folded ones are together.

    Single records get their partitions together, when the commit or a batch needs them (`settle`): for many
    keys at once that takes a fraction of the time.
    """

    def __init__(
        self, info: TopicInfo, without_key: int, staged: bytes | None, checked: TopicInfo, packs: str | None
    ) -> None:
        """With `staged`, the name of the task, rows are folded before they are written, and only the newest
        of each key get a partition. They are checked against the topic `checked`. With `packs`, the name of
        the task, records are written in blocks."""
        self.check = RowCheck(checked)
        self.name = info.name
        self._staged, self.folds = staged, staged is not None
        self._task, self.packs = packs, packs is not None
        self._limit = info.setting("max.message.bytes")
        self.sent: dict[int, int] = {}
        """The number of records that were written in blocks to each partition."""
        self._count = info.partitions
        self._without_key: dict[bytes | None, int] = {None: without_key % info.partitions}
        """A record without a key goes to the task's own partition."""
        self._partitions = dict(self._without_key)
        self._together = self.folds or info.partitions == 1
        self.waiting = [_Waiting() for _ in range(1 if self._together else info.partitions)]
        # Single records as columns, behind those that wait.
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []

    def add(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Add a single record. Runs for each, so it does nothing that can wait. A key must be bytes: a serde
        that returns anything else fails at its record."""
        if key is not None and not isinstance(key, bytes):
            raise TypeError(f"the serde of the key returned a {type(key).__name__}, not bytes")
        self._timestamps.append(timestamp)
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(headers)

    def settle(self) -> None:
        """Put the single records where those of their keys wait."""
        if not self._timestamps:
            return
        count, size = len(self._keys), _size(self._keys) + _size(self._values)
        most = count if size <= JOINED_BYTES else max(1, count * JOINED_BYTES // size)
        for start in range(0, count, most):
            part = slice(start, start + most)
            keys = self._keys[part]
            batch = columns_to_batch(self._timestamps[part], keys, self._values[part], self._headers[part])
            numbers = [0] if self._together else self._numbers(keys)
            for partition, own in _divided(batch, numbers):
                self.waiting[partition].add_batch(own)
        self._cut_single(0)

    def lengths(self) -> list[int]:
        """Return how many records wait in each place, single ones last."""
        return [*map(len, self.waiting), len(self._timestamps)]

    def cut(self, lengths: Sequence[int]) -> None:
        """Remove what was added since `lengths`. No single record of before may have been settled since."""
        *whole, single = lengths
        for waiting, length in zip(self.waiting, whole, strict=True):
            waiting.cut(length)
        self._cut_single(single)

    def clear(self) -> None:
        self.cut([0] * (len(self.waiting) + 1))

    def _cut_single(self, length: int) -> None:
        for column in (self._timestamps, self._keys, self._values, self._headers):
            del column[length:]

    def _numbers(self, keys: Sequence[bytes | None]) -> list[int]:
        """Return the partitions of keys, most of which are known."""
        known = self._partitions
        try:
            return [known[key] for key in keys]
        except KeyError:
            pass
        if len(known) >= REMEMBERED_KEYS:
            known = self._partitions = dict(self._without_key)
        fresh: list[Any] = list(set(keys).difference(known))
        numbers = partition_column(pa.array(fresh, pa.binary()), self._count).to_pylist()
        known.update(zip(fresh, numbers, strict=True))
        return [known[key] for key in keys]

    def spread(
        self, batch: pa.RecordBatch, numbered: NumberedKeys | None = None
    ) -> Iterator[tuple[_Waiting, pa.RecordBatch]]:
        """Split a batch by where it waits. Its keys are numbered here unless that was done before."""
        if self.folds:
            yield self.waiting[0], batch
            return
        for partition, part in self._by_partition(batch, numbered):
            yield self.waiting[partition], part

    def _by_partition(
        self, batch: pa.RecordBatch, numbered: NumberedKeys | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._count == 1:
            yield 0, batch
            return
        keys, numbers = _numbered(batch.column(1)) if numbered is None else numbered
        yield from _divided(batch, self._all(keys).take(numbers))

    def _all(self, keys: pa.Array[Any]) -> pa.Array[Any]:
        if len(keys) >= FEW_KEYS and not keys.null_count:
            return partition_column(keys, self._count)
        return pa.array(self._numbers(keys.to_pylist()), pa.int32())

    def batches(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        if self._staged is not None:
            yield from self._newest(self.waiting[0].batches, self._staged)
            return
        for number, waiting in enumerate(self.waiting):
            partition = TopicPartition(self.name, number)
            for batch in self._written(partition, waiting.batches):
                yield partition, batch

    def _newest(
        self, batches: Sequence[pa.RecordBatch], task: bytes
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        if not batches:
            return
        if sum(batch.nbytes for batch in batches) > JOINED_BYTES:
            found: dict[int, list[pa.RecordBatch]] = {}
            for batch in batches:
                for number, part in self._by_partition(batch, None):
                    found.setdefault(number, []).append(part)
            for number, parts in sorted(found.items()):
                yield TopicPartition(self.name, number), staged(newest(parts), task)
            return
        rows = newest(batches)
        numbered = rows.column(1), pa.arange(0, rows.num_rows)
        for number, part in self._by_partition(rows, numbered):
            yield TopicPartition(self.name, number), staged(part, task)

    def _written(
        self, partition: TopicPartition, batches: Sequence[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        if self._task is None:
            return batches
        rows = sum(batch.num_rows for batch in batches)
        self.sent[partition.partition] = self.sent.get(partition.partition, 0) + rows
        return packed(partition, batches, self._task, self._limit)


def _size(values: Sequence[bytes | None]) -> int:
    return sum(map(len, filter(None, values)))


def _divided(
    batch: pa.RecordBatch, numbers: pa.Array[Any] | list[int]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide a batch by the partitions of its records; a single one is that of all."""
    distinct = set(numbers if isinstance(numbers, list) else pc.unique(numbers).to_pylist())
    if len(distinct) == 1:
        yield distinct.pop(), batch
        return
    of_records = pa.array(numbers, pa.int32()) if isinstance(numbers, list) else numbers
    counts = sorted((one["values"], one["counts"]) for one in pc.value_counts(of_records).to_pylist())
    by_partition, start = batch.take(pc.sort_indices(of_records)), 0  # a stable sort
    for partition, count in counts:
        yield partition, by_partition.slice(start, count)
        start += count


def _numbered(keys: pa.Array[Any]) -> NumberedKeys:
    numbered: Any = keys.dictionary_encode(null_encoding="encode")
    return numbered.dictionary, numbered.indices


class TaskOutputs:
    """Pending records by topic and partition, in order. Those of a record that failed are rolled back."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._targets: dict[str, Target] = {}
        self._before: dict[str, list[int]] = {}
        self.bytes = 0

    def target(
        self,
        info: TopicInfo,
        *,
        staged: bytes | None = None,
        checked: TopicInfo | None = None,
        packs: str | None = None,
    ) -> Target:
        """Return the target of a topic, created once."""
        target = self._targets.get(info.name)
        if target is None:
            target = Target(info, self._partition, staged, checked or info, packs)
            self._targets[info.name] = target
        return target

    def add(
        self,
        target: Target,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        now: int,
    ) -> None:
        """Add one record. Raises, before it is added, if the topic cannot take it."""
        self.bytes += target.check.size(key, value, timestamp, headers, now)
        target.add(key, value, timestamp, headers)

    def add_to(self, target: Target, partition: int, timestamp: int, headers: Headers, now: int) -> None:
        """Add a record without key and value to a partition."""
        self.bytes += target.check.size(None, None, timestamp, headers, now)
        target.settle()
        target.waiting[partition].add_batch(columns_to_batch([timestamp], [None], [None], [headers]))

    def add_batch(
        self,
        target: Target,
        batch: pa.RecordBatch,
        now: int,
        numbered: NumberedKeys | None = None,
    ) -> None:
        """Add many records. Raises, before any is added, if the topic cannot take one of them."""
        self.bytes += target.check.sizes(batch, now)
        target.settle()
        for waiting, part in target.spread(batch, numbered):
            waiting.add_batch(part)

    def begin_record(self) -> None:
        """Mark the lengths that `roll_back` returns to."""
        self._before = {name: target.lengths() for name, target in self._targets.items()}

    def roll_back(self) -> None:
        """Remove the outputs of a failed record."""
        for name, target in self._targets.items():
            if name in self._before:
                target.cut(self._before[name])
            else:
                target.clear()

    def settle(self) -> None:
        """Give single records their partitions: before a batch is processed, which may be rolled back, and
        before anything looks at what waits."""
        for target in self._targets.values():
            target.settle()

    def batches(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        self.settle()
        for target in self._targets.values():
            yield from target.batches()

    def sent(self) -> dict[TopicPartition, int]:
        """Return how many records were written in blocks to each partition, those of this commit too."""
        return {
            TopicPartition(name, number): count
            for name, target in self._targets.items()
            for number, count in target.sent.items()
        }

    def resume(self, sent: Mapping[TopicPartition, int]) -> None:
        """Go on counting from here."""
        for (topic, number), count in sent.items():
            target = self._targets.get(topic)
            if target is not None and target.packs:
                target.sent[number] = count

    def clear(self) -> None:
        for target in self._targets.values():
            target.clear()
        self.bytes = 0
