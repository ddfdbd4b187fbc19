"""The rows that an upgrade would publish, a page at a time: for a person who has to decide.

Rows are in the order of their partitions, and in each by key. They are found by the comparison that the
upgrade itself makes, over the same topics, as long as these exist: from when the upgrade has compared until
it has published. Memory is bounded by `MEMORY` and by the page. A page compares partition after partition,
and ends with the one that fills it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.protocol import Log
from tidegate.models.correction import corrected
from tidegate.models.row import decode_row
from tidegate.runtime.topics.upgrades import Published, UpgradeEntry
from tidegate.upgrade.comparison import PartitionComparison
from tidegate.upgrade.publication import compared_of

MEMORY = 128 * 2**20
LARGEST_PAGE = 8 * 2**20
"""Bytes of the keys and values of a page."""
ROWS_AT_ONCE = 1_000


class RowKind(StrEnum):
    """How a row differs."""

    NEW = "new"
    CHANGED = "changed"
    REMOVED = "removed"


class Place(NamedTuple):
    """Where a row is in the order of rows."""

    partition: int
    key: bytes


class SideOfRow(NamedTuple):
    """A value, as it is or as it would be."""

    start: bytes
    """Its first bytes: all of them, if it is not too long."""
    size: int

    @property
    def is_whole(self) -> bool:
        return len(self.start) == self.size


class DifferingRow(NamedTuple):
    """A row that differs. A side is None if there is no row."""

    place: Place
    before: SideOfRow | None
    after: SideOfRow | None
    offset: int | None
    """Of the live record in its partition."""

    @property
    def kind(self) -> RowKind:
        if self.before is None:
            return RowKind.NEW
        return RowKind.REMOVED if self.after is None else RowKind.CHANGED

    @property
    def size(self) -> int:
        return len(self.place.key) + sum(len(side.start) for side in (self.before, self.after) if side)


class RowsPage(NamedTuple):
    """Some rows, and whether there are more behind the last one."""

    rows: list[DifferingRow]
    more: bool


def has_rows(entry: UpgradeEntry) -> bool:
    """Return whether the topics that an upgrade compared still exist."""
    return entry.state in ("waiting", "publishing")


def differing_rows(
    log: Log,
    app: str,
    published: Published,
    *,
    kind: RowKind | None = None,
    after: Place | None = None,
    limit: int = 100,
    preview: int = 1_000,
) -> RowsPage:
    """Return the first rows behind a place, of one kind or of all. Values are cut to `preview` bytes."""
    compared = compared_of(log, app, published)
    found: list[DifferingRow] = []
    more = False
    for number in range(0 if after is None else after.partition, compared.partitions):
        behind = after.key if after is not None and after.partition == number else None
        batches = PartitionComparison(log, compared, number, memory=MEMORY)
        picked = (_picked(batch, kind, behind) for batch in batches)
        rows = (_rows(batch, number, preview, of_model=compared.owner is None) for batch in picked)
        found, more = _first_of(found, rows, limit)
        if more:
            break
    return RowsPage(found, more)


def _first_of(
    before: list[DifferingRow], batches: Iterable[Iterator[DifferingRow]], limit: int
) -> tuple[list[DifferingRow], bool]:
    """Return the rows before, and those of a partition with the smallest keys, as many as a page can hold;
    and whether there are more. Batches come in any order; rows of one are ordered."""
    found: list[DifferingRow] = []
    more = False
    for batch in batches:
        known = sorted([*found, *islice(batch, limit - len(before) + 1)])
        page = _held([*before, *known], limit)
        more = more or len(page) < len(before) + len(known)
        found = page[len(before) :]
    return before + found, more


def _picked(batch: pa.RecordBatch, kind: RowKind | None, behind: bytes | None) -> pa.RecordBatch:
    """Return the rows of a kind behind a key, ordered by key."""
    before, after = pc.is_valid(batch.column("before")), pc.is_valid(batch.column("after"))
    if kind is RowKind.NEW:
        batch = batch.filter(pc.invert(before))
    elif kind is RowKind.REMOVED:
        batch = batch.filter(pc.invert(after))
    elif kind is RowKind.CHANGED:
        batch = batch.filter(pc.and_(before, after))
    if behind is not None:
        batch = batch.filter(pc.greater(batch.column("key"), pa.scalar(behind, pa.binary())))
    return batch.take(pc.sort_indices(batch.column("key")))


def _rows(batch: pa.RecordBatch, number: int, preview: int, *, of_model: bool) -> Iterator[DifferingRow]:
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        part = batch.slice(start, ROWS_AT_ONCE)
        if of_model:
            part = part.filter(_differing_states(part))
        keys, offsets = part.column("key").to_pylist(), part.column("offset").to_pylist()
        before, after = _sides(part.column("before"), preview), _sides(part.column("after"), preview)
        for key, old, new, offset in zip(keys, before, after, offsets, strict=True):
            yield DifferingRow(Place(number, key), old, new, offset)


def _differing_states(part: pa.RecordBatch) -> pa.Array[pa.BooleanScalar]:
    """Return which states differ: those of different bytes may be the same value."""
    rows = zip(part.column("before_row").to_pylist(), part.column("after_row").to_pylist(), strict=True)
    steps = (corrected(decode_row(old), decode_row(new)) for old, new in rows)
    return pa.array([step is not None and step.patch is not None for step in steps], pa.bool_())


def _sides(values: pa.Array[pa.BinaryScalar], preview: int) -> Iterator[SideOfRow | None]:
    starts, sizes = pc.binary_slice(values, 0, preview).to_pylist(), pc.binary_length(values).to_pylist()
    for start, size in zip(starts, sizes, strict=True):
        yield None if start is None else SideOfRow(start, size)


def _held(rows: list[DifferingRow], limit: int) -> list[DifferingRow]:
    """Return the first rows, as many as a page can hold: at least one."""
    total = 0
    for at, row in enumerate(rows[:limit]):
        total += row.size
        if at and total > LARGEST_PAGE:
            return rows[:at]
    return rows[:limit]
