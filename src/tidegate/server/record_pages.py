"""Pages of the records of a topic, forwards and backwards, of all keys or one.

A page looks at a bounded number of records. With a key most of them may be others: then a page has few
records or none, and its position shows where to go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from tidegate.log.merged import LocatedRow, ReadRange, read_merged
from tidegate.log.protocol import Log
from tidegate.log.records import ReadRow
from tidegate.server.parameters import within_bytes
from tidegate.types import TopicPartition

MOST_READ = 20_000

Bounds = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records, ordered by their times, and the positions before and behind them."""

    records: list[LocatedRow]
    scanned: int
    previous: dict[TopicPartition, int] | None
    """Where the page before it ends; None if there is nothing before."""
    next: dict[TopicPartition, int]
    oldest: int | None = None
    """The oldest time that was looked at."""


def page_from(
    log: Log, starts: Bounds, begins: Bounds, ends: Bounds, limit: int, key: bytes | None
) -> RecordPage:
    """Return the first records between two positions; `starts` are those of the partitions."""
    spans = {one: ReadRange(begin, ends[one]) for one, begin in begins.items()}
    positions, scanned = dict(begins), 0
    found: list[LocatedRow] = []
    with closing(read_merged(log, spans)) as merged:
        rows = islice(merged, limit if key is None else MOST_READ)
        for partition, row in within_bytes(rows, _size) if key is None else rows:
            scanned += 1
            positions[partition] = row.offset + 1
            if key is None or row.key == key:
                found.append((partition, row))
            if len(found) >= limit:
                break
        else:
            if scanned < (limit if key is None else MOST_READ) and key is not None:
                positions = dict(ends)
    more = any(begin > starts[one] for one, begin in begins.items())
    return RecordPage(found, scanned, dict(begins) if more else None, positions)


def page_before(
    log: Log,
    starts: Bounds,
    ends: Bounds,
    limit: int,
    key: bytes | None,
    fits: Callable[[ReadRow], bool] | None = None,
) -> RecordPage:
    """Return the last records before a position, of a key and as `fits` chooses: reads a bounded number back
    from the end of each partition."""
    share = max(1, MOST_READ // len(starts))
    if key is None and fits is None:
        share = min(limit, max(share, -(-limit // len(starts))))
    spans = {one: ReadRange(max(start, ends[one] - share), ends[one]) for one, start in starts.items()}
    scanned = 0
    newest: deque[LocatedRow] = deque(maxlen=limit)
    left_out: set[TopicPartition] = set()
    oldest: int | None = None
    with closing(read_merged(log, spans)) as merged:
        for partition, row in merged:
            scanned += 1
            oldest = row.timestamp if oldest is None else min(oldest, row.timestamp)
            if (key is None or row.key == key) and (fits is None or fits(row)):
                if len(newest) == limit:
                    left_out.add(newest[0][0])
                newest.append((partition, row))
    page = within_bytes(reversed(newest), _size)[::-1]
    left_out |= {one for one, _ in islice(newest, len(newest) - len(page))}
    bounds: dict[TopicPartition, int] = {
        one: span.start for one, span in spans.items() if one not in left_out
    }
    for one in left_out:
        bounds[one] = min((row.offset for of, row in page if of == one), default=ends[one])
    more = any(bounds[one] > start for one, start in starts.items())
    return RecordPage(page, scanned, bounds if more else None, dict(ends), oldest)


def _size(located: LocatedRow) -> int:
    row = located[1]
    return len(row.key or b"") + len(row.value or b"") + sum(len(value or b"") for _, value in row.headers)
