"""One partition of the model log: records with their transactions, and what compaction leaves of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter

import pyarrow as pa

from tidegate.log.records import READ_SCHEMA, Headers, columns_to_batch
from tidegate.types import TopicPartition

EMPTY = pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)
_offset = itemgetter(0)

Stored = tuple[int, int, "bytes | None", "bytes | None", Headers, "Transaction | None"]
"""Offset, timestamp, key, value, headers, and the transaction that wrote it."""


class Outcome(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """What one writer wrote between two commits; `first` is where it begins in each partition."""

    outcome: Outcome = Outcome.OPEN
    first: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(slots=True)
class ModelPartition:
    """Records in the order of their offsets. `next` is the end, open transactions included."""

    start: int = 0
    next: int = 0
    records: list[Stored] = field(default_factory=list)
    open: list[Transaction] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)

    def add(
        self, rows: Iterable[tuple[int, bytes | None, bytes | None, Headers]], by: Transaction | None
    ) -> int:
        """Give offsets to rows at once, as Kafka does. The offset of the first."""
        first = self.next
        for timestamp, key, value, headers in rows:
            self.records.append((self.next, timestamp, key, value, headers, by))
            self.next += 1
        return first

    def end(self, partition: TopicPartition) -> int:
        """How far a committed reader gets: to the first record of the oldest open transaction."""
        return min((one.first[partition] for one in self.open), default=self.next)

    def ended(self, transaction: Transaction, *, marked: bool) -> None:
        """The transaction was committed or aborted: its marker takes an offset."""
        self.open.remove(transaction)
        self.next += marked

    def records_from(self, offset: int) -> list[Stored]:
        """All records from an offset on, whatever became of them."""
        return self.records[bisect_left(self.records, offset, key=_offset) :]

    def read(self, offset: int, end: int, limit: int) -> tuple[pa.RecordBatch, int]:
        """Committed records from `offset` to below `end`, and where the next read goes on."""
        found: list[Stored] = []
        for record in self.records_from(offset):
            if record[0] >= end:
                break
            if counts(record[5]):
                found.append(record)
                if len(found) == limit:
                    return _batch(found), record[0] + 1
        return _batch(found), end

    def compact(self, until: int, now: int, delete_retention_ms: int) -> None:
        """Below `until` keep the newest record of each key, and drop tombstones past their horizon."""
        below = (record for record in self.records if record[0] < until and counts(record[5]))
        newest = {record[2]: record[0] for record in below}
        kept, horizons = [], {}
        for record in self.records:
            offset, _, key, value, _, by = record
            if offset < until:
                if not counts(by) or newest[key] != offset:
                    continue
                if value is None:
                    horizon = self.horizons.get(offset, now + delete_retention_ms)
                    if horizon <= now:
                        continue
                    horizons[offset] = horizon
            kept.append(record)
        self.records, self.horizons = kept, horizons

    def purge(self, before: int) -> None:
        """Drop what lies below an offset."""
        self.start = min(max(self.start, before), self.next)
        self.records = self.records_from(self.start)


def counts(by: Transaction | None) -> bool:
    """Whether what a transaction wrote is there."""
    return by is None or by.outcome is Outcome.COMMITTED


def _batch(found: list[Stored]) -> pa.RecordBatch:
    if not found:
        return EMPTY
    batch = columns_to_batch(
        [record[1] for record in found],
        [record[2] for record in found],
        [record[3] for record in found],
        [record[4] for record in found] if any(record[4] for record in found) else None,
    )
    offsets = pa.array([record[0] for record in found], pa.int64())
    return pa.RecordBatch.from_arrays([offsets, *batch.columns], schema=READ_SCHEMA)
