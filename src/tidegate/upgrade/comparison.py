"""Compare the recalculated rows with those of the live app: for previews and for upgrades.

Comparison is by the bytes of keys and values; of a model's row by its state. Timestamps do not count. Of each
key the newest record of the live topic counts. A key whose newest record another writer wrote is left out and
counted.

Memory is bounded by `MEMORY`, whatever the number of rows: see `key_buckets`. What differs is yielded as
Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_keys
from tidegate.log.protocol import Log
from tidegate.log.records import HEADERS_TYPE
from tidegate.runtime.topics.upgrades import Differences
from tidegate.upgrade.compared_rows import Compared, Read
from tidegate.upgrade.key_buckets import LIVE, STAGED, Bucket, KeyBuckets, dictionary_codes, replay_order

MEMORY = 512 * 2**20
"""Bytes that a comparison uses at most, apart from the records that are being read. Rows are held up to a
quarter of it: joining, sorting and comparing them copies them."""
DIFFERENCES = pa.schema(
    [
        ("key", pa.binary()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        ("offset", pa.int64()),
        ("before_time", pa.int64()),
        ("after_time", pa.int64()),
        ("headers", HEADERS_TYPE),
        ("before_row", pa.binary()),
        ("after_row", pa.binary()),
    ]
)
"""Rows that differ. `before` and `after` are null where there is no row; `offset` is that of the live record,
`headers` are those of the staged one; the whole rows are those of a model."""


class PartitionComparison:
    """The comparison of one partition. It reads at the first `next`, each side once."""

    def __init__(
        self,
        log: Log,
        compared: Compared,
        number: int,
        *,
        live_end: int | None = None,
        memory: int | None = None,
        folder: Path | None = None,
    ) -> None:
        """`live_end` is where the live topic is read up to, by default its uncommitted end. A temporary file
        is in `folder`."""
        self._log, self.compared, self.number = log, compared, number
        self._live_end = live_end
        self._memory, self._folder = MEMORY if memory is None else memory, folder
        self.equal = self.foreign = 0
        self.read: tuple[Read | None, Read | None] | None = None
        """Up to where both sides were read, once they were."""
        self.file_bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield what differs, of the schema DIFFERENCES. `equal` and `foreign` count the other rows."""
        for bucket in self._buckets().take():
            found = self._differing(bucket)
            if found.num_rows:
                yield found

    def _buckets(self) -> KeyBuckets:
        log, compared, number = self._log, self.compared, self.number
        live, staged = self.read = compared.ends(log, number)
        if live is not None and self._live_end is not None:
            live = Read(live.uid, self._live_end)
        expected = sum(
            end.end - info.starts[number]
            for end, info in ((live, compared.live), (staged, compared.staged))
            if end is not None and info is not None
        )
        ordered = compared.owner is not None
        buckets = KeyBuckets(self._memory // 4, expected, ordered=ordered, folder=self._folder)
        if live is not None:
            for batch in compared.live_rows(log, number, live.end):
                buckets.add(LIVE, batch)
        if staged is not None:
            for batch in compared.staged_rows(log, number, staged.end):
                buckets.add(STAGED, batch)
        self.file_bytes = buckets.file_bytes
        return buckets

    def _differing(self, bucket: Bucket) -> pa.RecordBatch:
        """Return the rows of a bucket that differ, and count the others."""
        live, staged = bucket
        keys = [*live.column("key").chunks, *staged.column("key").chunks]
        codes = dictionary_codes(pa.chunked_array(keys, pa.binary()))
        total, split = len(codes), live.num_rows
        live_at = last_of_keys(codes.slice(0, split), total)
        staged_at = last_of_keys(codes.slice(split), total)
        if self.compared.owner is not None and total - split > total - staged_at.null_count:
            order = replay_order(staged)
            staged_at = order.take(last_of_keys(codes.slice(split).take(order), total))
        before, after = _taken(live, "value", live_at), _taken(staged, "value", staged_at)
        owned = pc.fill_null(_taken(live, "owned", live_at), True)
        exists = pc.or_(pc.is_valid(before), pc.is_valid(after))
        differs = pc.fill_null(pc.not_equal(before, after), exists)  # null if there is no row on a side
        self.foreign += _count(pc.and_not(exists, owned))
        self.equal += _count(pc.and_(owned, pc.and_not(exists, differs)))
        picked: Any = pc.indices_nonzero(pc.and_(owned, differs))
        live_at, staged_at = live_at.take(picked), staged_at.take(picked)
        of_both = pc.coalesce(_taken(live, "key", live_at), _taken(staged, "key", staged_at))
        columns = [
            of_both,
            before.take(picked),
            after.take(picked),
            _taken(live, "offset", live_at),
            _taken(live, "timestamp", live_at),
            _taken(staged, "timestamp", staged_at),
            _taken(staged, "headers", staged_at),
            _taken(live, "row", live_at),
            _taken(staged, "row", staged_at),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=DIFFERENCES)


def counted(batch: pa.RecordBatch) -> Differences:
    """Count rows that differ."""
    put, removed = batch.column(1).null_count, batch.column(2).null_count
    return Differences(put, batch.num_rows - put - removed, removed)


def _taken(rows: pa.Table, name: str, indices: pa.Array[Any]) -> Any:
    """Return a column at these indices; null where the index is."""
    return rows.column(name).combine_chunks().take(indices)


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)
