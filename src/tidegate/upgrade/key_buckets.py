"""The rows of both sides of a comparison, by key, in bounded memory.

Rows are held in memory up to a limit. Above it the newest row of each key is kept; if that is not enough, all
rows go to buckets by a hash of their keys, and buckets to a temporary file. A bucket holds about a quarter of
the limit, and is compared alone: a key is in the same bucket on both sides.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_keys
from tidegate.runtime.output.origin import origin_columns
from tidegate.types import TopicPartition
from tidegate.upgrade.compared_rows import ROWS
from tidegate.upgrade.spill import Spill

LIVE, STAGED = SIDES = (0, 1)
MOST_BUCKETS = 4096
ROWS_AT_ONCE = 10_000


class Bucket(NamedTuple):
    """All rows of some keys, in the order in which they were written."""

    live: pa.Table
    staged: pa.Table


class KeyBuckets:
    """Rows are added to both sides, and then taken by bucket."""

    def __init__(self, limit: int, expected: int, *, ordered: bool, folder: Path | None = None) -> None:
        """`expected` is how many rows come at most. `ordered`: of the staged rows of a key that one counts
        which is last in the order of a replay, not the one that was written last."""
        self._limit, self._expected, self._ordered = limit, expected, ordered
        self._held: dict[int, list[pa.RecordBatch]] = {side: [] for side in SIDES}
        self._bytes = self._rows = 0
        self._spill = Spill(ROWS, limit // 2, folder)
        self._count = 0
        """The number of buckets; 0 while all rows are in memory."""

    @property
    def file_bytes(self) -> int:
        return self._spill.file_bytes

    def add(self, side: int, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        if self._count:
            self._distribute(side, batch)
            return
        self._held[side].append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._limit:
            self._shrink()

    def take(self) -> Iterator[Bucket]:
        """Yield the buckets that have rows, once."""
        if not self._count:
            yield Bucket(*(pa.Table.from_batches(self._held.pop(side), ROWS) for side in SIDES))
        for number in range(self._count):
            of_sides = (list(self._spill.pop((side, number))) for side in SIDES)
            bucket = Bucket(*(pa.Table.from_batches(batches, ROWS) for batches in of_sides))
            if bucket.live.num_rows or bucket.staged.num_rows:
                yield bucket
        self._spill.close()

    def _shrink(self) -> None:
        for side in SIDES:
            rows = pa.Table.from_batches(self._held.pop(side), ROWS)
            self._held[side] = newest(rows, ordered=self._ordered and side == STAGED).to_batches()
            del rows
        self._bytes = sum(batch.nbytes for batches in self._held.values() for batch in batches)
        if self._bytes <= self._limit // 2:
            return
        all_bytes = self._bytes * max(1.0, self._expected / self._rows)
        self._count = min(MOST_BUCKETS, 2 + int(all_bytes // max(1, self._limit // 4)))
        held, self._held = self._held, {}
        for side in SIDES:
            batches = held.pop(side)
            while batches:
                self._distribute(side, batches.pop(0))

    def _distribute(self, side: int, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            self._distribute_some(side, batch.slice(start, ROWS_AT_ONCE))

    def _distribute_some(self, side: int, batch: pa.RecordBatch) -> None:
        hashes = [zlib.crc32(key or b"") % self._count for key in batch.column(0).to_pylist()]
        taken = batch.take(pc.sort_indices(pa.array(hashes, pa.int32())))  # a stable sort
        start = 0
        for number, count in sorted(Counter(hashes).items()):
            self._spill.add((side, number), taken.slice(start, count))
            start += count


def newest(rows: pa.Table, *, ordered: bool) -> pa.Table:
    """Return one row of each key."""
    codes = dictionary_codes(rows.column("key"))
    if not ordered:
        return rows.take(pc.drop_null(last_of_keys(codes, rows.num_rows)))
    order = replay_order(rows)
    return rows.take(order.take(pc.drop_null(last_of_keys(codes.take(order), rows.num_rows))))


def dictionary_codes(keys: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return a number for each key."""
    joined: Any = keys.combine_chunks()
    found: pa.Array[Any] = joined.dictionary_encode().indices
    return found


def replay_order(staged: pa.Table) -> pa.Array[Any]:
    """Return the indices of staged rows in the order of a replay: by their stream times, tasks and sequence
    numbers."""
    columns = [staged.column(name) for name in ("offset", "timestamp", "key", "value", "headers")]
    table = pa.Table.from_arrays(columns, names=["offset", "timestamp", "key", "value", "headers"])
    [batch] = table.combine_chunks().to_batches() or [None]
    if batch is None:
        return pa.array([], pa.int64())
    found = origin_columns(TopicPartition("", 0), batch)
    order = pa.table({"time": found.times, "task": found.tasks, "sequence": found.sequences})
    names = ("time", "task", "sequence")
    return pc.sort_indices(order, sort_keys=[(name, "ascending") for name in names])
