"""The rows that a comparison reads: those of a table topic and of its staging topic, or of a model's
changelog and of the recalculated one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import HEADERS_TYPE
from tidegate.log.topic import TopicInfo
from tidegate.models.row import decode_row
from tidegate.runtime.output.origin import owned_by
from tidegate.runtime.output.staged_rows import split_keys
from tidegate.types import TopicPartition

ROWS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("offset", pa.int64()),
        ("owned", pa.bool_()),
        ("headers", HEADERS_TYPE),
        ("row", pa.binary()),
    ]
)
"""`value` is what is compared. `headers` are those of staged rows; `row` is the whole row of a model."""


class Read(NamedTuple):
    """Up to where a partition of a topic was read. What was read is the same while this is."""

    uid: str
    end: int


@dataclass(frozen=True, slots=True)
class Compared:
    """Rows to compare: those of a table topic with its staging topic, or those of a model with the changelog
    of the recalculation. Either side may be missing."""

    name: str
    """The table topic or the model."""
    live: TopicInfo | None
    staged: TopicInfo | None
    owner: bytes | None
    """The owner header of the live app's rows; None for a changelog, which nobody else writes."""

    @property
    def partitions(self) -> int:
        return max((side.partitions for side in (self.live, self.staged) if side is not None), default=0)

    def ends(self, log: Log, number: int) -> tuple[Read | None, Read | None]:
        """Return the ends of a partition now, of the live topic and of the other one."""
        return _end(log, self.live, number), _end(log, self.staged, number)

    def live_rows(self, log: Log, number: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of the live topic below `end`, tombstones included."""
        assert self.live is not None  # noqa: S101 - it has an end
        partition = TopicPartition(self.live.name, number)
        for batch in read_between(log, partition, self.live.starts[number], end):
            owned = owned_rows(batch, self.owner)
            yield self._rows(batch, batch.column(2), owned, pa.nulls(batch.num_rows, HEADERS_TYPE))

    def staged_rows(self, log: Log, number: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the recalculated records below `end`, tombstones included, under the keys of their rows."""
        assert self.staged is not None  # noqa: S101 - it has an end
        partition = TopicPartition(self.staged.name, number)
        for batch in read_between(log, partition, self.staged.starts[number], end):
            keys = batch.column(2) if self.owner is None else split_keys(batch.column(2))
            yield self._rows(batch, keys, _all(batch), batch.column(4))

    def _rows(
        self, batch: pa.RecordBatch, keys: pa.Array[Any], owned: pa.Array[Any], headers: pa.Array[Any]
    ) -> pa.RecordBatch:
        offsets, timestamps, values = (batch.column(index) for index in (0, 1, 3))
        if self.owner is None:
            states, rows = _states(values), values
        else:
            states, rows = values, pa.nulls(batch.num_rows, pa.binary())
        columns = [keys, states, timestamps, offsets, owned, headers, rows]
        return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def owned_rows(batch: pa.RecordBatch, owner: bytes | None) -> pa.Array[Any]:
    """Return which records have this owner. Records of a changelog have none."""
    headers = batch.column(4)
    if owner is None:
        return _all(batch)
    return owned_by(headers, owner)


def _all(batch: pa.RecordBatch) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(True), batch.num_rows)


def _states(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return what is compared of the rows of a model; null for an id that does not exist."""
    rows = (decode_row(value) for value in values.to_pylist())
    return pa.array([None if row.gone else bytes(row.state) for row in rows], pa.binary())


def _end(log: Log, info: TopicInfo | None, number: int) -> Read | None:
    if info is None or number >= info.partitions:
        return None
    partition = TopicPartition(info.name, number)
    return Read(info.uid, int(log.ends([partition], committed=False)[partition]))
