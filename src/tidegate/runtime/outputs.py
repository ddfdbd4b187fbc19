"""What a task writes to topics, held in memory until the commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.log.checks import RowCheck
from tidegate.log.records import Headers, columns_to_batch
from tidegate.log.topic import TopicInfo
from tidegate.partitioner import partition_for
from tidegate.types import TopicPartition

REMEMBERED_KEYS = 100_000


@dataclass(slots=True)
class _Columns:
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)

    def cut(self, length: int) -> None:
        for column in (self.timestamps, self.keys, self.values, self.headers):
            del column[length:]


class Target:
    """One topic that a task writes to: its partitions, and the records waiting for each."""

    def __init__(self, info: TopicInfo, without_key: int) -> None:
        self.check = RowCheck(info)
        self._name = info.name
        self._count = info.partitions
        self._without_key = without_key % info.partitions
        self._partitions: dict[bytes, int] = {}
        self.columns = [_Columns() for _ in range(info.partitions)]

    def partition(self, key: bytes | None) -> int:
        """Where a key belongs; a record without one stays in the task's own partition."""
        if key is None:
            return self._without_key
        known = self._partitions.get(key)
        if known is None:
            if len(self._partitions) >= REMEMBERED_KEYS:
                self._partitions.clear()
            known = self._partitions[key] = partition_for(key, self._count)
        return known

    def lengths(self) -> list[int]:
        return [len(columns.timestamps) for columns in self.columns]

    def cut(self, lengths: Sequence[int]) -> None:
        for columns, length in zip(self.columns, lengths, strict=True):
            columns.cut(length)

    def batches(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        for number, columns in enumerate(self.columns):
            if columns.timestamps:
                batch = columns_to_batch(columns.timestamps, columns.keys, columns.values, columns.headers)
                yield TopicPartition(self._name, number), batch


class Outputs:
    """Records by topic and partition, in order. Those of a record that failed are taken back."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._targets: dict[str, Target] = {}
        self._before: dict[str, list[int]] = {}
        self.bytes = 0

    def target(self, info: TopicInfo) -> Target:
        """The topic as a target, made once."""
        target = self._targets.get(info.name)
        if target is None:
            target = self._targets[info.name] = Target(info, self._partition)
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
        """One record. Raises, before it is added, for what the topic cannot take."""
        self.bytes += target.check.size(key, value, timestamp, headers, now)
        columns = target.columns[target.partition(key)]
        columns.timestamps.append(timestamp)
        columns.keys.append(key)
        columns.values.append(value)
        columns.headers.append(headers)

    def begin_record(self) -> None:
        """From here on what is added can be taken back."""
        self._before = {name: target.lengths() for name, target in self._targets.items()}

    def take_back(self) -> None:
        """The record failed: what it wrote never was."""
        for name, target in self._targets.items():
            target.cut(self._before.get(name, [0] * len(target.columns)))

    def batches(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        for target in self._targets.values():
            yield from target.batches()

    def clear(self) -> None:
        for target in self._targets.values():
            target.cut([0] * len(target.columns))
        self.bytes = 0
