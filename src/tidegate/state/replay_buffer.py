"""Changelog records that wait to be applied together.

A key that is written often takes many records; of those that are applied at once only the last counts, and
rows that are neighbours in the B-tree cost less side by side. So a restore gathers records for as long as the
last words on their keys are few: what is applied at once is never much.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class ReplayBuffer:
    """Of one changelog, in the order of its offsets."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.bytes = 0
        self.unfolded = 0
        """Bytes that came since `fold`."""
        self.records = 0
        self.next = 0
        """The offset behind them."""

    def add(self, batch: pa.RecordBatch, behind: int) -> None:
        self.batches.append(batch)
        self.bytes += batch.nbytes
        self.unfolded += batch.nbytes
        self.records += batch.num_rows
        self.next = behind

    def fold(self) -> None:
        """Keep the last words alone."""
        last = self.last_words()
        self.batches, self.bytes, self.unfolded = [last], last.nbytes, 0

    def last_words(self) -> pa.RecordBatch:
        """The last record of each key, by key. Found by hashing: sorting all of them takes five times as long
        where keys repeat."""
        whole = self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)
        told = pa.table({"key": whole.column(2), "offset": whole.column(0)})
        newest = told.group_by("key", use_threads=False).aggregate([("offset", "max")])
        last = whole.filter(pc.is_in(whole.column(0), newest.column("offset_max").combine_chunks()))
        return last.take(pc.sort_indices(last, sort_keys=[("key", "ascending")]))
