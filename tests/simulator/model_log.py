"""A log in plain Python that numbers and hides records as Kafka does.

The embedded log gives offsets at commit: they are dense, and an open transaction hides nothing. A broker
gives them at once: aborted records and the markers of transactions take offsets too, and committed records
behind another's open transaction cannot be read until that ends. What restores and positions must do about
it shows here, without a broker. It is also fast: nothing is encoded, nothing touches a disk.

Time does not pass in a poll. A reader that stands before an open transaction waits a number of polls; then
the transaction is timed out, as a broker would do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
from tests.simulator.model_partition import (
    ModelPartition,
    Outcome,
    Stored,
    Transaction,
    counts,
)
from tests.simulator.model_writer import ModelWriter

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.checks import check_batch
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Fetched
from tidegate.log.records import Headers, ReadRow
from tidegate.log.topic import POLICY, TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition

NEVER = 1 << 62


class ModelLog:
    """Topics in memory.

    `page` is the most that a poll gives of a partition; `patience` is the number of polls that an open
    transaction may stand in the way of; without `markers` the end of a transaction takes no offset; without
    `checks` a topic takes any record.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        page: int = NEVER,
        patience: int = NEVER,
        markers: bool = True,
        checks: bool = True,
    ) -> None:
        self.clock = clock
        self._markers = markers
        self.page = page
        self._checks = checks
        self.epochs: dict[str, int] = {}
        self._holders: dict[str, ModelWriter] = {}
        self._patience = patience
        self._blocked = 0
        self._created = 0
        self._topics: dict[str, tuple[TopicSpec, str]] = {}
        self._partitions: dict[TopicPartition, ModelPartition] = {}

    @property
    def id(self) -> str:
        return "model"

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        """Nobody looks."""

    @property
    def location(self) -> LogLocation:
        return LogLocation("sqlite://")

    def check(self) -> None:
        """It is always there."""

    def create(self, spec: TopicSpec) -> TopicInfo:
        found = self._topics.get(spec.name)
        if found is None:
            self._created += 1
            self._topics[spec.name] = spec, f"uid-{self._created}"
            for number in range(spec.partitions):
                self._partitions[TopicPartition(spec.name, number)] = ModelPartition()
        else:
            _check_same(found[0], spec)
        return self.describe(spec.name)

    def describe(self, name: str) -> TopicInfo:
        spec, uid = self._topic(name)
        starts = (self._partitions[TopicPartition(name, number)].start for number in range(spec.partitions))
        return TopicInfo(name, uid, spec.config, tuple(starts))

    def names(self) -> list[str]:
        return sorted(self._topics)

    def delete(self, name: str) -> None:
        for number in range(self._topic(name)[0].partitions):
            del self._partitions[TopicPartition(name, number)]
        del self._topics[name]

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        found = {partition: self.partition(partition) for partition in partitions}
        return {at: Offset(one.end(at) if committed else one.next) for at, one in found.items()}

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        found = self.partition(partition)
        late = (record[0] for record in found.records if record[1] >= timestamp)
        return Offset(next(late, found.next))

    def reader(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        brief: bool = False,  # noqa: ARG002
    ) -> ModelReader:
        return ModelReader(self, positions)

    def truth(self, positions: Mapping[TopicPartition, Offset]) -> ModelFollower:
        return ModelFollower(self, positions)

    def writer(
        self,
        writer_id: str,
        *,
        open_seconds: float | None = None,  # noqa: ARG002
    ) -> ModelWriter:
        return ModelWriter(self, writer_id)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        return Offset(self.add(partition, batch, None) + batch.num_rows - 1)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        self.partition(partition).purge(before)

    def compact(self, topic: str) -> None:
        """Compact a topic to its committed end, now."""
        info = self.describe(topic)
        if info.compacts:
            for number in range(info.partitions):
                at = TopicPartition(topic, number)
                one = self.partition(at)
                one.compact(one.end(at), self.clock.now(), info.setting("delete.retention.ms"))

    def close(self) -> None:
        return None

    # --- for readers and writers ----------------------------------------------------------------------

    def partition(self, partition: TopicPartition) -> ModelPartition:
        if partition not in self._partitions:
            self._topic(partition.topic)
            raise LogError("no-such-partition", f"there is no {partition}", "describe the topic first")
        return self._partitions[partition]

    def take_over(self, writer_id: str, holder: ModelWriter) -> int:
        """Become the holder of an id: what the one before has open is aborted. The new epoch."""
        if writer_id in self._holders:
            self._holders[writer_id].fence()
        self._holders[writer_id] = holder
        self.epochs[writer_id] = self.epochs.get(writer_id, 0) + 1
        return self.epochs[writer_id]

    def add(self, partition: TopicPartition, batch: pa.RecordBatch, by: Transaction | None) -> int:
        """Append, and return the first offset."""
        found = self.partition(partition)
        if self._checks:
            check_batch(self.describe(partition.topic), partition.partition, batch, self.clock.now())
        if by is not None and batch.num_rows and partition not in by.first:
            by.first[partition] = found.next
            found.open.append(by)
        columns = (batch.column(name).to_pylist() for name in ("timestamp", "key", "value"))
        return found.add(zip(*columns, _headers(batch), strict=True), by)

    def end(self, transaction: Transaction, outcome: Outcome) -> None:
        """Commit or abort: at once in all partitions."""
        transaction.outcome = outcome
        for partition in transaction.first:
            self._partitions[partition].ended(transaction, marked=self._markers)

    def blocked(self, partition: TopicPartition) -> None:
        """A reader stands before an open transaction: one day it is timed out."""
        self._blocked += 1
        if self._blocked >= self._patience:
            self._blocked = 0
            for transaction in list(self._partitions[partition].open):
                self.end(transaction, Outcome.ABORTED)

    def _topic(self, name: str) -> tuple[TopicSpec, str]:
        if name not in self._topics:
            raise LogError("no-such-topic", f"there is no topic {name!r}", "create it first")
        return self._topics[name]


class ModelReader:
    """Reads committed records of some partitions."""

    def __init__(self, log: ModelLog, positions: Mapping[TopicPartition, Offset]) -> None:
        self._log = log
        self._positions: dict[TopicPartition, int] = dict(positions)
        self._ended: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()

    def poll(self, timeout: float) -> list[Fetched]:  # noqa: ARG002 - time does not pass here
        found = []
        for partition, position in self._positions.items():
            if partition in self._paused:
                continue
            stored = self._log.partition(partition)
            if not stored.start <= position <= stored.next:
                raise LogError(
                    "offset-out-of-range",
                    f"{partition} holds {stored.start} to {stored.next - 1}, but {position} was requested",
                    "start from where the topic starts",
                )
            end = stored.end(partition)
            if position < end:
                batch, behind = stored.read(position, end, self._log.page)
                found.append(Fetched(partition, batch, Offset(behind)))
            elif end < stored.next:
                self._log.blocked(partition)
            else:
                self._ended.add(partition)
        for fetched in found:
            self.seek(fetched.partition, fetched.next)
        return found

    def position(self, partition: TopicPartition) -> Offset:
        return Offset(self._positions[partition])

    def at_end(self, partition: TopicPartition) -> bool:
        return partition in self._ended

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        self._positions[partition] = offset
        self._ended.discard(partition)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._paused = set(partitions)
        self._ended -= self._paused

    def close(self) -> None:
        return None


class ModelFollower:
    """Gets what is committed also where an open transaction hides it from readers. A record of a transaction
    that was open when it was passed comes once that is committed."""

    def __init__(self, log: ModelLog, positions: Mapping[TopicPartition, Offset]) -> None:
        self._stored = {one: log.partition(one) for one in positions}
        self._next: dict[TopicPartition, int] = dict(positions)
        self._passed: dict[TopicPartition, list[Stored]] = {}

    def read(self) -> dict[TopicPartition, list[ReadRow]]:
        found = {}
        for partition, stored in self._stored.items():
            passed = self._passed.get(partition, [])
            if passed or stored.next > self._next[partition]:
                fresh = passed + stored.records_from(self._next[partition])
                self._next[partition] = stored.next
                self._passed[partition] = [one for one in fresh if one[5] and one[5].outcome is Outcome.OPEN]
                if rows := [_row(one) for one in fresh if counts(one[5])]:
                    found[partition] = rows
        return found

    def close(self) -> None:
        return None


def _check_same(found: TopicSpec, wanted: TopicSpec) -> None:
    if found.partitions != wanted.partitions:
        raise LogError(
            "partition-count", f"topic {found.name!r} has {found.partitions} partitions", "ask for these"
        )
    policies = [spec.config.get(POLICY, "delete") for spec in (found, wanted)]
    if policies[0] != policies[1]:
        raise LogError("other-policy", f"topic {found.name!r} has policy {policies[0]}", "use another name")


def _headers(batch: pa.RecordBatch) -> list[Headers]:
    column = batch.column(3)
    if column.null_count == len(column):
        return [()] * len(column)
    return [tuple((pair["name"], pair["value"]) for pair in row or ()) for row in column.to_pylist()]


def _row(record: Stored) -> ReadRow:
    offset, timestamp, key, value, headers, _ = record
    return ReadRow(offset, timestamp, key, value, tuple(headers))
