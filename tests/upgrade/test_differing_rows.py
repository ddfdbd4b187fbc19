"""Pages of the rows that an upgrade would publish: each row once, in order, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.upgrade.plain_comparison import compare
from tests.upgrade.test_comparison import MINE, live_rows, staged_rows

from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics.upgrades import Published
from tidegate.types import TopicPartition
from tidegate.upgrade import differing_rows as module
from tidegate.upgrade.differing_rows import DifferingRow, Place, RowKind, differing_rows

OUT = Published("out", "table", "out", "staging")
PARTITIONS = 3


@pytest.fixture(scope="module", name="shared")
def shared_log() -> Iterator[SqliteLog]:
    with closing(SqliteLog()) as log:
        yield log


def filled(log: SqliteLog, live: list[Row], staged: list[Row]) -> None:
    """Rows go to partitions in turn."""
    for topic, rows in (("out", live), ("staging", staged)):
        if topic in log.names():
            log.delete(topic)
        log.create(TopicSpec(topic, PARTITIONS, {"cleanup.policy": "compact"}))
        for number in range(PARTITIONS):
            if part := rows[number::PARTITIONS]:
                log.append(TopicPartition(topic, number), to_batch(part))


def all_pages(log: SqliteLog, limit: int, kind: RowKind | None = None) -> list[DifferingRow]:
    """Follow pages to the end. No page is larger than asked for, and only the last one may be empty."""
    found: list[DifferingRow] = []
    after: Place | None = None
    while True:
        page = differing_rows(log, "shop", OUT, kind=kind, after=after, limit=limit, preview=4)
        assert len(page.rows) <= limit
        found += page.rows
        if not page.more:
            return found
        assert page.rows
        after = page.rows[-1].place


@given(
    st.lists(live_rows(), max_size=15),
    st.lists(staged_rows(), max_size=15),
    st.integers(1, 4),
    st.sampled_from([1, 10, 2**20]),
)
@settings(deadline=None, max_examples=40)
def test_pages_hold_every_row_that_differs_once_and_in_order(
    shared: SqliteLog, live: list[Row], staged: list[Row], limit: int, largest: int
) -> None:
    filled(shared, live, staged)
    expected = {
        Place(number, key): (row.before, row.after)
        for number in range(PARTITIONS)
        for key, row in compare(shared, "out", "staging", MINE, number).rows.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MEMORY", 300)
        patch.setattr(module, "LARGEST_PAGE", largest)
        found = all_pages(shared, limit)
        by_kind = [row for kind in RowKind for row in all_pages(shared, limit, kind)]
    assert [row.place for row in found] == sorted(expected)
    values = {
        row.place: tuple(None if side is None else side.start for side in (row.before, row.after))
        for row in found
    }
    assert values == expected
    assert sorted(by_kind) == found
    assert all(row.kind is RowKind.NEW for row in found if row.before is None)


def test_a_long_value_is_cut_and_has_its_size(shared: SqliteLog) -> None:
    live = [Row(b"a", b"x" * 10_000, 1, (("tidegate.owner", MINE),))]
    filled(shared, live, [])
    [row] = differing_rows(shared, "shop", OUT, preview=3).rows
    assert row.kind is RowKind.REMOVED
    assert row.before is not None
    assert (row.before.start, row.before.size, row.before.is_whole) == (b"xxx", 10_000, False)
    assert (row.after, row.offset) == (None, 0)
