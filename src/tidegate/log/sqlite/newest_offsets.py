"""The newest offset of each key among many records, in columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_keys

ROWS_AT_ONCE = 1_000_000
BYTES_AT_ONCE = 32 << 20
SPANS_AT_ONCE = 10_000

Columns: TypeAlias = "tuple[pa.Array[Any], pa.Array[Any]]"
"""Keys and offsets."""


def enough(rows: int, size: int, spans: int) -> bool:
    """Return whether so much should be handled at once. Each time Arrow makes a hash table of all keys, so
    little at once is slow; much takes memory."""
    return rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE or spans >= SPANS_AT_ONCE


class NewestOffsets:
    """Collects records, then tells which records are older than the newest of their key."""

    def __init__(self) -> None:
        self._folded = _keys_and_offsets([])
        self._added: list[Columns] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records, which are newer than those before."""
        added = _keys_and_offsets([batch])
        self._added.append(added)
        self._rows += batch.num_rows
        self._bytes += added[0].nbytes
        if enough(self._rows, self._bytes, len(self._added)):
            self.fold()

    def __len__(self) -> int:
        """The number of keys that are folded."""
        return len(self._folded[0])

    def fold(self) -> None:
        """Keep the newest offset of each key."""
        keys, offsets = (pa.concat_arrays(column) for column in zip(self._folded, *self._added, strict=True))
        encoded: Any = keys.dictionary_encode()
        different = encoded.dictionary
        self._folded = different, offsets.take(last_of_keys(encoded.indices, len(different)))
        self._added, self._rows, self._bytes = [], 0, 0

    def keeps(self, batches: list[pa.RecordBatch]) -> Iterator[pa.Array[Any]]:
        """Yield for each batch which of its records are not older than the newest of their key. Everything
        that was added is folded."""
        keys, offsets = _keys_and_offsets(batches)
        newest = self._folded[1].take(pc.index_in(keys, value_set=self._folded[0]))
        kept: Any = pc.fill_null(pc.less_equal(newest, offsets), fill_value=True)
        at = 0
        for batch in batches:
            yield kept.slice(at, batch.num_rows)
            at += batch.num_rows


def _keys_and_offsets(batches: list[pa.RecordBatch]) -> Columns:
    """Return copies of the keys, which may take more than 2 GiB together, and of the offsets: a column of a
    decoded batch would keep the whole batch in memory."""
    keys = [batch.column(2).cast(pa.large_binary()) for batch in batches]
    offsets = [batch.column(0) for batch in batches]
    return (
        pa.concat_arrays([pa.nulls(0, pa.large_binary()), *keys]),
        pa.concat_arrays([pa.nulls(0, pa.int64()), *offsets]),
    )
