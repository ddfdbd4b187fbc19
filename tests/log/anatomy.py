"""What lies in the tables of the file: the laws that no caller sees, but that reads stand on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tidegate.log.sqlite.layout import (
    PARTITION_COLUMNS,
    SPAN_COLUMNS,
    PartitionRow,
    Span,
    to_partition,
    to_span,
)
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import TopicPartition

_PARTITIONS = f"SELECT {PARTITION_COLUMNS} FROM partition"  # noqa: S608 - constants
_SPANS = f"SELECT {SPAN_COLUMNS} FROM span ORDER BY partition, last"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Stored:
    """A partition and its spans, as stored."""

    row: PartitionRow
    spans: list[Span]


def stored(log: SqliteLog) -> dict[TopicPartition, Stored]:
    """All partitions of all topics, in one snapshot."""
    with log._database.read() as connection:
        topics = dict(connection.execute("SELECT id, name FROM topic WHERE name IS NOT NULL"))
        partitions = connection.execute(_PARTITIONS).fetchall()
        spans = connection.execute(_SPANS).fetchall()
    found = {row.id: Stored(row, []) for row in map(to_partition, partitions)}
    for span in map(to_span, spans):
        found[span.partition].spans.append(span)
    return {
        TopicPartition(topics[one.row.topic], one.row.number): one
        for one in found.values()
        if one.row.topic in topics
    }


def check_tiles(partition: TopicPartition, one: Stored) -> None:
    """The spans of a partition tile from its start to its next offset, without gap or overlap."""
    row, spans = one.row, one.spans
    assert 0 <= row.start <= row.next
    assert row.clean <= row.next
    if row.start == row.next:
        assert not spans, f"{partition} is empty but has spans"
        return
    assert spans[0].base <= row.start <= spans[0].last, f"{partition} does not start in its first span"
    assert spans[-1].last + 1 == row.next, f"{partition} does not end with its last span"
    for left, right in pairwise(spans):
        assert left.last + 1 == right.base, f"{partition} has a gap or overlap at {right.base}"
    for span in spans:
        assert 0 <= span.tombstones <= span.count <= span.last - span.base + 1
        assert span.horizon == 0 or span.tombstones > 0


def check_batches(log: SqliteLog) -> int:
    """Every batch is linked once, by a span or as pending, and every link has its batch. How many are
    pending."""
    with log._database.read() as connection:
        batches = [key for (key,) in connection.execute("SELECT id FROM batch ORDER BY id")]
        linked = [key for (key,) in connection.execute("SELECT batch FROM span WHERE count > 0")]
        pending = [key for (key,) in connection.execute("SELECT batch FROM pending")]
    assert sorted(linked + pending) == batches, "a batch is lost, left over or linked twice"
    return len(pending)


def check_cut(before: Stored, start: int, *, now: int, age: int, size: int) -> None:
    """Retention cut whole spans, all that it should and no more; -1 stands for no limit."""
    gone = [span for span in before.spans if span.last < start]
    left = [span for span in before.spans if span.last >= start]
    if age < 0 and size < 0:
        assert start == before.row.start, "a topic without retention lost history"
    if gone:
        assert start == max(before.row.start, gone[-1].last + 1), "a span was cut in two"
    if age >= 0:
        assert all(span.max_timestamp < now - age for span in gone), "retention.ms cut what is young"
        assert not left or left[0].max_timestamp >= now - age, "retention.ms left what is old"
    if size >= 0:
        total = sum(span.size for span in left)
        assert not gone or total >= size, "retention.bytes cut too much"
        assert not left or total - left[0].size < size, "retention.bytes left too much"
