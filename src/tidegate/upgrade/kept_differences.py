"""What an upgrade found when it compared, kept until it publishes.

The same process compares and, once it is decided, publishes. It holds the app, so nobody else writes the
app's rows meanwhile. If neither of the two topics has changed since, what was found is published, and nothing
is read again. After a crash nothing is kept: the rest is found by a new comparison.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from tidegate.log.protocol import Log
from tidegate.upgrade.compared_rows import Compared, Read
from tidegate.upgrade.comparison import DIFFERENCES, PartitionComparison
from tidegate.upgrade.spill import Spill

KEPT_BYTES = 32 * 2**20
"""In memory; above that in a temporary file."""


class KeptDifferences:
    """Rows that differ, by topic or model and partition."""

    def __init__(self, folder: Path | None = None) -> None:
        """Temporary files are in `folder`."""
        self.folder = folder
        self._spill = Spill(DIFFERENCES, KEPT_BYTES, folder)
        self._read: dict[Hashable, tuple[Read | None, Read | None]] = {}

    def kept(self, comparison: PartitionComparison) -> Iterator[pa.RecordBatch]:
        """Yield what differs, and keep it."""
        at = _key(comparison.compared, comparison.number)
        for batch in comparison:
            self._spill.add(at, batch)
            yield batch
        if comparison.read is not None:
            self._read[at] = comparison.read

    def differing(self, log: Log, compared: Compared, number: int) -> Iterable[pa.RecordBatch]:
        """Return what differs now: what was kept, if the topics are as they were, or a new comparison."""
        at = _key(compared, number)
        if compared.ends(log, number) == self._read.pop(at, None):
            return self._spill.pop(at)
        return PartitionComparison(log, compared, number, folder=self.folder)

    def close(self) -> None:
        self._read.clear()
        self._spill.close()


def _key(compared: Compared, number: int) -> Hashable:
    return compared.owner, compared.name, number
