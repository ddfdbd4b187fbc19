"""Read several partitions as one sequence.

Records of one partition keep their order, whatever their timestamps; between partitions the earlier
timestamp comes first, then the lower partition number. That is the order in which a person wants to read a
topic, and it is the same on every read.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import dropwhile
from typing import NamedTuple

from tidegate.log.protocol import Fetched, Log
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, rows_of
from tidegate.types import Offset, TopicPartition

OPEN_READERS = 16
SHARED_BYTES = 32 << 20
CHUNK_ROWS = 1024
POLL_SECONDS = 0.25

LocatedRow = tuple[TopicPartition, ReadRow]


class ReadRange(NamedTuple):
    """Offsets to read: from `start` to below `end`, skipping records before the first one at or after the
    timestamp `since`."""

    start: int
    end: int
    since: int = 0


def read_merged(
    log: Log,
    ranges: Mapping[TopicPartition, ReadRange],
    *,
    open_readers: int = OPEN_READERS,
    shared_bytes: int = SHARED_BYTES,
) -> Generator[LocatedRow]:
    """Yield the records of these ranges, merged.

    A merge needs the next record of every partition, so each partition has a page in memory. Up to
    `open_readers` partitions have an open reader each and stream. More partitions share `shared_bytes`, read
    in turns, and read again what did not fit: slower, but a topic of thousands of partitions needs no more
    memory and open files than one of sixteen.
    """
    few = len(ranges) <= open_readers
    share = None if few else shared_bytes // len(ranges)
    sources = [_rows(log, partition, read_range, share) for partition, read_range in ranges.items()]
    trimmed = [
        _skip_before(source, read_range.since)
        for source, read_range in zip(sources, ranges.values(), strict=True)
    ]
    try:
        yield from heapq.merge(*trimmed, key=_order)
    finally:
        for source in sources:
            source.close()


def follow(
    log: Log, positions: Mapping[TopicPartition, Offset], timeout: float | None = None
) -> Generator[LocatedRow | None]:
    """Yield the records from these positions on as they arrive, without end.

    Yields None regularly while nothing arrives, so that the caller can do other work. With a `timeout` it
    ends after so many seconds without a record; the time that the caller takes does not count."""
    with closing(log.reader(positions)) as reader:
        deadline = _deadline(timeout)
        while True:
            left = deadline - time.monotonic()
            fetched = reader.poll(min(POLL_SECONDS, max(0.0, left)))
            if any(part.batch.num_rows for part in fetched):
                yield from heapq.merge(*map(_located, fetched), key=_order)
                deadline = _deadline(timeout)
            elif left <= 0:
                return
            else:
                yield None


def _skip_before(source: Generator[LocatedRow], since: int) -> Iterator[LocatedRow]:
    """Skip records before the timestamp `since`. The offset that a log returned for it may be too low: Kafka
    counts the marker of a transaction, whose time is that of the commit, as a record."""
    return dropwhile(lambda located: located[1].timestamp < since, source) if since else source


def _deadline(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout


def _order(located: LocatedRow) -> tuple[int, int]:
    partition, row = located
    return row.timestamp, partition.partition


def _located(fetched: Fetched) -> Iterator[LocatedRow]:
    return ((fetched.partition, row) for row in rows_of(fetched.batch))


def _rows(
    log: Log, partition: TopicPartition, read_range: ReadRange, share: int | None
) -> Generator[LocatedRow]:
    start = read_range.start
    while start < read_range.end:
        taken: list[ReadRow] = []
        size = 0
        with closing(_stream(log, partition, start, read_range.end)) as rows:
            for row in rows:
                if share is None:
                    yield partition, row
                    continue
                taken.append(row)
                size += len(row.key or b"") + len(row.value or b"")
                if size >= share:
                    break
            else:
                start = read_range.end
        for row in taken:
            yield partition, row
            start = max(start, row.offset + 1)


def _stream(log: Log, partition: TopicPartition, start: int, end: int) -> Generator[ReadRow]:
    # The end is committed, so it will be reached; the time that the caller takes between rows must not count.
    for batch in read_between(log, partition, start, end, patience=float("inf")):
        for first in range(0, batch.num_rows, CHUNK_ROWS):
            yield from rows_of(batch.slice(first, CHUNK_ROWS))
