"""A log in plain Python: what the embedded log must hold after any history of calls.

Rows are given offsets at commit and kept in a dict. What compaction may drop is a law and not a list:
`observed_compaction` takes what the log still has, judges it, and goes on from there. Everything else is
predicted exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.log.records import ReadRow, Row
from tidegate.types import TopicPartition

Folded = dict[bytes | None, tuple[bytes, int]]


@dataclass
class Seen:
    """When compaction met a tombstone first: not before `earliest`; at `latest` for sure, if it is known."""

    earliest: int
    latest: int | None = None


@dataclass
class OraclePartition:
    """The rows of one partition that are still there, by offset."""

    start: int = 0
    next: int = 0
    kept: dict[int, ReadRow] = field(default_factory=dict)
    seen: dict[int, Seen] = field(default_factory=dict)

    def append(self, rows: Iterable[Row]) -> int:
        """Give the rows their offsets. Returns the last of them."""
        for row in rows:
            headers = tuple(row.headers)
            self.kept[self.next] = ReadRow(self.next, row.timestamp, row.key, row.value, headers)
            self.next += 1
        return self.next - 1

    def cut(self, before: int) -> None:
        """Drop what lies below an offset."""
        self.start = min(max(self.start, before), self.next)
        self.kept = {offset: row for offset, row in self.kept.items() if offset >= self.start}
        self.seen = {offset: when for offset, when in self.seen.items() if offset >= self.start}

    def at(self, share: float) -> int:
        """An offset on the way from the start to the end."""
        return self.start + round((self.next - self.start) * share)

    def rows(self, first: int = 0, end: int | None = None) -> list[ReadRow]:
        """What a reader gets from `first` to below `end`."""
        return [row for at, row in self.kept.items() if first <= at and (end is None or at < end)]

    def fold(self) -> Folded:
        return fold_rows(self.kept.values())

    def offset_at(self, timestamp: int) -> int:
        return next((at for at, row in self.kept.items() if row.timestamp >= timestamp), self.next)

    def observed_compaction(
        self, rows: list[ReadRow], *, now: int, retention: int, clean: int, finished: bool
    ) -> None:
        """Judge what compaction left, and go on from it.

        1 nothing is new or changed; 2 what went was superseded by a newer record of its key, or was a
        tombstone that had stood for its retention; 3 so the fold is the same; 4 below `clean` no key has
        two records; 5 a tombstone is gone if a finished pass came an eighth after its retention.
        """
        left = {row.offset: row for row in rows}
        assert all(self.kept.get(at) == row for at, row in left.items()), "1: a record was changed"
        newest = {row.key: at for at, row in self.kept.items()}
        for at, row in self.kept.items():
            if at not in left and newest[row.key] == at:
                assert row.value is None, f"2: the newest record of {row.key!r} is gone, offset {at}"
                assert at in self.seen, f"2: the tombstone at {at} went before a compaction had seen it"
                assert now >= self.seen[at].earliest + retention, f"2: the tombstone at {at} went too early"
        assert fold_rows(rows) == self.fold(), "3: compaction changed the fold"
        below = [row.key for row in rows if row.offset < clean]
        assert len(below) == len(set(below)), "4: a key has two records below what was compacted"
        self._check_expiry(left, now, retention, finished=finished)
        self.kept = left
        self.seen = {at: when for at, when in self.seen.items() if at in left}
        for at, row in left.items():
            if row.value is None and (at < clean or not finished):
                when = self.seen.setdefault(at, Seen(now))
                if finished and when.latest is None:
                    when.latest = now

    def _check_expiry(self, left: dict[int, ReadRow], now: int, retention: int, *, finished: bool) -> None:
        for at, when in self.seen.items():
            if finished and at in left and when.latest is not None:
                stands_until = when.latest + retention + retention // 8
                assert now < stands_until, f"5: the tombstone at {at} should have gone"


def fold_rows(rows: Iterable[ReadRow]) -> Folded:
    """Rows one after the other: the newest value of each key, with its timestamp."""
    folded: Folded = {}
    for row in rows:
        if row.value is None:
            folded.pop(row.key, None)
        else:
            folded[row.key] = (row.value, row.timestamp)
    return folded


@dataclass
class OracleTopic:
    """One topic; `uid` distinguishes it from an older one of the same name."""

    uid: str
    partitions: list[OraclePartition]


@dataclass
class OracleWriter:
    """One holder of a writer id and its open transaction.

    `aims` holds the uid that a topic had when the transaction first touched the partition.
    """

    id: str
    epoch: int
    spent: bool = False
    aims: dict[TopicPartition, str] = field(default_factory=dict)
    appended: list[tuple[TopicPartition, list[Row]]] = field(default_factory=list)
    flushed: dict[TopicPartition, int] = field(default_factory=dict)

    def forget(self) -> None:
        self.aims = {}
        self.appended = []
        self.flushed = {}

    def pending(self, partition: TopicPartition) -> int:
        """How many records of the open transaction go to a partition."""
        return sum(len(rows) for target, rows in self.appended if target == partition)


class Oracle:
    """Topics and the epochs of writer ids."""

    def __init__(self) -> None:
        self.topics: dict[str, OracleTopic] = {}
        self.epochs: dict[str, int] = {}

    def partition(self, partition: TopicPartition) -> OraclePartition:
        return self.topics[partition.topic].partitions[partition.partition]

    def partitions(self) -> list[TopicPartition]:
        """All partitions there are, sorted."""
        return [
            TopicPartition(name, number)
            for name, topic in sorted(self.topics.items())
            for number in range(len(topic.partitions))
        ]

    def writer(self, writer_id: str) -> OracleWriter:
        """Open the writer: the newest epoch holds the id."""
        self.epochs[writer_id] = self.epochs.get(writer_id, 0) + 1
        return OracleWriter(writer_id, self.epochs[writer_id])

    def is_fenced(self, writer: OracleWriter) -> bool:
        return self.epochs[writer.id] != writer.epoch

    def append(self, writer: OracleWriter, target: TopicPartition, rows: list[Row]) -> None:
        writer.aims.setdefault(target, self.topics[target.topic].uid)
        writer.appended.append((target, rows))

    def flush_refusal(self, writer: OracleWriter, targets: set[TopicPartition]) -> str | None:
        """The code with which a flush must fail now; None if it must succeed."""
        if writer.spent:
            return "writer-spent"
        if self.is_fenced(writer):
            return "fenced"
        return self._missed(writer, targets)

    def flush(self, writer: OracleWriter, targets: set[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset of each partition, as flush returns it."""
        for target in targets:
            writer.aims.setdefault(target, self.topics[target.topic].uid)
            writer.flushed[target] = self.partition(target).next
        return {target: writer.flushed[target] + writer.pending(target) for target in targets}

    def refusal(self, writer: OracleWriter) -> str | None:
        """The code with which a commit must fail now; None if it must succeed."""
        if writer.spent:
            return "writer-spent"
        if writer.aims and self.is_fenced(writer):
            return "fenced"
        return self._missed(writer, set(writer.aims))

    def _missed(self, writer: OracleWriter, targets: set[TopicPartition]) -> str | None:
        uids = {target: topic.uid for target in targets if (topic := self.topics.get(target.topic))}
        if any(uids.get(target) != uid for target, uid in writer.aims.items() if target in targets):
            return "no-such-topic"
        stands = {target: self.partition(target).next for target in targets if target in writer.flushed}
        if any(writer.flushed[target] != stand for target, stand in stands.items()):
            return "offsets-moved"
        return None

    def commit(self, writer: OracleWriter) -> None:
        """Everything appended shows, each partition in the order of its appends."""
        for target, rows in writer.appended:
            self.partition(target).append(rows)
        writer.forget()
