"""The difference between the recalculated rows and the rows of a table topic beside a live app.

A row that the live app wrote around the cut is ambiguous: it may belong to records above the cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from tidegate.log.protocol import Log
from tidegate.runtime.topics.upgrades import Differences
from tidegate.types import TopicPartition
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.comparison import PartitionComparison
from tidegate.upgrade.cut import Bracket


class RowDifference(NamedTuple):
    """A row that differs: as it is, and as it would be; None if there is no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


class Counts(Differences, frozen=True):
    """How many rows differ beside a live app, and how."""

    in_flight: int = 0
    """Rows that the live app wrote again and again while they were compared."""


@dataclass(slots=True)
class SinkDifference:
    """What differs in one table topic."""

    topic: str
    rows: list[RowDifference] = field(default_factory=list)
    in_flight: list[RowDifference] = field(default_factory=list)
    equal: int = 0
    foreign: int = 0

    def counts(self) -> Counts:
        put = sum(row.before is None for row in self.rows)
        removed = sum(row.after is None for row in self.rows)
        changed = len(self.rows) - put - removed
        return Counts(put, changed, removed, self.equal, self.foreign, len(self.in_flight))


def difference(log: Log, compared: Compared, bracket: Bracket, folder: Path | None = None) -> SinkDifference:
    """Compare partition by partition. Only the rows that differ stay in memory. A temporary file is in
    `folder`."""
    found = SinkDifference(compared.name)
    for number in range(compared.partitions):
        partition = TopicPartition(compared.name if compared.live is None else compared.live.name, number)
        one = PartitionComparison(log, compared, number, live_end=bracket.after.get(partition), folder=folder)
        for batch in one:
            keys, before, after = (batch.column(index).to_pylist() for index in range(3))
            around_cut = pc.greater_equal(batch.column(3), bracket.before.get(partition, 0))
            differing = map(RowDifference, keys, before, after)
            for row, ambiguous in zip(differing, around_cut.to_pylist(), strict=True):
                (found.in_flight if ambiguous else found.rows).append(row)
        found.equal += one.equal
        found.foreign += one.foreign
    for rows in (found.rows, found.in_flight):
        rows.sort(key=lambda row: row.key)
    return found
