"""The difference between the recalculated rows and the rows of a table topic beside a live app.

A row that the live app wrote around the cut is ambiguous: it may belong to records above the cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from tidegate.log.protocol import Log
from tidegate.runtime.topics.upgrades import Differences
from tidegate.types import TopicPartition
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.comparison import PartitionComparison
from tidegate.upgrade.cut import Bracket
from tidegate.upgrade.sorted_rows import ROWS, SortedRows


class Counts(Differences, frozen=True):
    """How many rows differ beside a live app, and how."""

    in_flight: int = 0
    """Rows that the live app wrote again and again while they were compared."""


class SinkDifference:
    """What differs in one table topic or model. Rows are ordered by their keys, and read from a temporary
    file if there are many."""

    def __init__(self, topic: str, folder: Path | None = None) -> None:
        self.topic = topic
        self.rows, self.in_flight = SortedRows(folder), SortedRows(folder)
        self.equal = self.foreign = 0

    def counts(self) -> Counts:
        found = self.rows.counts()
        return Counts(found.put, found.changed, found.removed, self.equal, self.foreign, len(self.in_flight))


def difference(log: Log, compared: Compared, bracket: Bracket, folder: Path | None = None) -> SinkDifference:
    """Compare partition by partition, in bounded memory. Temporary files are in `folder`."""
    found = SinkDifference(compared.name, folder)
    for number in range(compared.partitions):
        partition = TopicPartition(compared.name if compared.live is None else compared.live.name, number)
        one = PartitionComparison(log, compared, number, live_end=bracket.after.get(partition), folder=folder)
        for batch in one:
            around_cut = pc.greater_equal(batch.column("offset"), bracket.before.get(partition, 0))
            ambiguous: Any = pc.fill_null(around_cut, False)
            rows = batch.select(ROWS.names)
            found.rows.add(rows.filter(pc.invert(ambiguous)))
            found.in_flight.add(rows.filter(ambiguous))
        found.equal += one.equal
        found.foreign += one.foreign
    return found
