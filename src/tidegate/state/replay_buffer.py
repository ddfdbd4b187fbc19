"""Buffer changelog records of a restore, to apply them together.

A key that is written often has many records; of those that are applied at once only the newest matters, and
writing adjacent rows of the B-tree together is cheaper. So a restore buffers records, folded to the newest
value per key, up to a limit in bytes: what is applied at once stays small.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class ReplayBuffer:
    """Records of one changelog, in the order of their offsets."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.bytes = 0
        self.unfolded = 0
        """Bytes added since the last `fold`."""
        self.records = 0
        self.next = 0
        """The offset after the last record."""

    def add(self, batch: pa.RecordBatch, after: int) -> None:
        self.batches.append(batch)
        self.bytes += batch.nbytes
        self.unfolded += batch.nbytes
        self.records += batch.num_rows
        self.next = after

    def fold(self) -> None:
        """Keep only the newest record of each key."""
        last = self._newest()
        self.batches, self.bytes, self.unfolded = [last], last.nbytes, 0

    def newest_per_key(self) -> pa.RecordBatch:
        """Return the newest record of each key, sorted by key."""
        last = self._newest()
        return last.take(pc.sort_indices(last, sort_keys=[("key", "ascending")]))

    def _newest(self) -> pa.RecordBatch:
        """Return the newest record of each key, in the order of their offsets. Found by hashing: sorting all
        records takes five times as long if keys repeat."""
        whole = self.batches[0] if len(self.batches) == 1 else pa.concat_batches(self.batches)
        rows = pa.table({"key": whole.column(2), "row": pa.arange(0, whole.num_rows)})
        newest = rows.group_by("key", use_threads=False).aggregate([("row", "max")]).column("row_max")
        return whole.take(newest.take(pc.sort_indices(newest)).combine_chunks())
