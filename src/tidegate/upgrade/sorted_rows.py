"""Rows that differ, ordered by their keys, in bounded memory.

Rows are held up to a limit. Above it they are sorted and written to a temporary file as a piece, and pieces
are merged whenever the rows are read. The file has no name, and is gone with the process or the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.runtime.topics.upgrades import Differences
from tidegate.upgrade.spill import Spill

HELD_BYTES = 8 * 2**20
ROWS_AT_ONCE, BYTES_AT_ONCE = 256, 32 * 2**10
"""Of each piece, how much is in memory while pieces are merged."""
ROWS = pa.schema([("key", pa.binary()), ("before", pa.binary()), ("after", pa.binary())])


class RowDifference(NamedTuple):
    """A row that differs: as it is, and as it would be; None if there is no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


class SortedRows:
    """Batches are added; then the rows can be read again and again."""

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        """The temporary file is in `folder`."""
        self._limit = HELD_BYTES if limit is None else limit
        self._spill = Spill(ROWS, 0, folder)
        self._held: list[pa.RecordBatch] = []
        self._bytes = self._pieces = 0
        self._put = self._changed = self._removed = 0

    def __len__(self) -> int:
        return self._put + self._changed + self._removed

    def __iter__(self) -> Iterator[RowDifference]:
        """Yield all rows in the order of their keys."""
        pieces = [self._spill.batches(number) for number in range(self._pieces)]
        return merge(*map(_rows, [*pieces, _parts(self._held)]), key=lambda row: row.key)

    @property
    def file_bytes(self) -> int:
        return self._spill.file_bytes

    def counts(self) -> Differences:
        return Differences(self._put, self._changed, self._removed)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of the schema ROWS."""
        put, removed = (batch.column(name).null_count for name in ("before", "after"))
        self._put, self._removed = self._put + put, self._removed + removed
        self._changed += batch.num_rows - put - removed
        pieces = self._pieces
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            self._hold(batch.slice(start, ROWS_AT_ONCE))
        if self._pieces > pieces:
            self._held = list(_parts(self._held))  # a copy: a slice keeps all rows of its batch in memory

    def _hold(self, part: pa.RecordBatch) -> None:
        self._held.append(part)
        self._bytes += part.nbytes
        if self._bytes > self._limit:
            for sorted_part in _parts(self._held):
                self._spill.add(self._pieces, sorted_part)
            self._held, self._bytes, self._pieces = [], 0, self._pieces + 1


def _parts(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of their keys, a few at a time."""
    if held:
        rows = pa.Table.from_batches(held, ROWS).combine_chunks()
        order: Any = pc.sort_indices(rows.column("key"))
        step = max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE * rows.num_rows // max(1, rows.nbytes)))
        for start in range(0, rows.num_rows, step):
            yield from rows.take(order.slice(start, step)).combine_chunks().to_batches()


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[RowDifference]:
    for batch in batches:
        yield from map(RowDifference, *(batch.column(number).to_pylist() for number in range(3)))
