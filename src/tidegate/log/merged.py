"""Several partitions as one sequence.

Records of one partition keep their order, whatever their timestamps say; between partitions the earlier
timestamp goes first, then the lower partition. That is the order in which a person wants to read a topic,
and it is the same each time.
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
    """Offsets to read: from `start` to below `end`, beginning with the first record as late as `since`."""

    start: int
    end: int
    since: int = 0


def read_merged(
    log: Log,
    spans: Mapping[TopicPartition, ReadRange],
    *,
    open_readers: int = OPEN_READERS,
    shared_bytes: int = SHARED_BYTES,
) -> Generator[LocatedRow]:
    """The records of these spans.

    A merge must see the next record of every partition, so each has a page in memory. Few partitions keep a
    reader each and stream; many share a number of bytes, take turns in reading, and read again what did not
    fit: slower, but a topic of thousands of partitions needs no more memory and files than one of sixteen.
    """
    few = len(spans) <= open_readers
    share = None if few else shared_bytes // len(spans)
    sources = [_rows(log, partition, span, share) for partition, span in spans.items()]
    begun = [_begin(source, span.since) for source, span in zip(sources, spans.values(), strict=True)]
    try:
        yield from heapq.merge(*begun, key=_order)
    finally:
        for source in sources:
            source.close()


def follow(
    log: Log, positions: Mapping[TopicPartition, Offset], timeout: float | None = None
) -> Generator[LocatedRow | None]:
    """The records from these positions on, as they come, for ever.

    Says None now and then while nothing comes, so that the caller can look around. With a `timeout` it ends
    when nothing came for so many seconds; the time that the caller takes does not count.
    """
    with closing(log.reader(positions)) as reader:
        deadline = _deadline(timeout)
        while True:
            left = deadline - time.monotonic()
            fetched = reader.poll(min(POLL_SECONDS, max(0.0, left)))
            if any(part.batch.num_rows for part in fetched):
                yield from heapq.merge(*map(_placed, fetched), key=_order)
                deadline = _deadline(timeout)
            elif left <= 0:
                return
            else:
                yield None


def _begin(source: Generator[LocatedRow], since: int) -> Iterator[LocatedRow]:
    """From the first record that is as late. A log may have named an offset before it: Kafka takes the mark
    of a transaction, whose time is that of the commit, for a record."""
    return dropwhile(lambda placed: placed[1].timestamp < since, source) if since else source


def _deadline(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout


def _order(placed: LocatedRow) -> tuple[int, int]:
    partition, row = placed
    return row.timestamp, partition.partition


def _placed(fetched: Fetched) -> Iterator[LocatedRow]:
    return ((fetched.partition, row) for row in rows_of(fetched.batch))


def _rows(log: Log, partition: TopicPartition, span: ReadRange, share: int | None) -> Generator[LocatedRow]:
    start = span.start
    while start < span.end:
        taken: list[ReadRow] = []
        size = 0
        with closing(_stream(log, partition, start, span.end)) as rows:
            for row in rows:
                if share is None:
                    yield partition, row
                    continue
                taken.append(row)
                size += len(row.key or b"") + len(row.value or b"")
                if size >= share:
                    break
            else:
                start = span.end
        for row in taken:
            yield partition, row
            start = max(start, row.offset + 1)


def _stream(log: Log, partition: TopicPartition, start: int, end: int) -> Generator[ReadRow]:
    # The end is committed, so it will be reached; how long the caller takes in between must not count.
    for batch in read_between(log, partition, start, end, patience=float("inf")):
        for first in range(0, batch.num_rows, CHUNK_ROWS):
            yield from rows_of(batch.slice(first, CHUNK_ROWS))
