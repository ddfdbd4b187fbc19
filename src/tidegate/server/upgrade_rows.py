"""Pages of the rows that an upgrade would publish.

Each comparison reads whole partitions, so the rows behind a place are kept for the next pages, as long as no
topic of the comparison has grown. One comparison runs at a time, so the memory of all of them is bounded.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any, NamedTuple

from tidegate.log.protocol import Log
from tidegate.runtime.topics.upgrades import Published
from tidegate.upgrade.compared_rows import Read
from tidegate.upgrade.differing_rows import DifferingRow, Place, RowKind, RowsPage, differing_rows
from tidegate.upgrade.publication import compared_of

KEPT_ROWS = 1_000
KEPT_WINDOWS = 4

Ends = list[tuple[Read | None, Read | None]]


class RowsQuery(NamedTuple):
    """Which rows are asked for. Equal ones are served from what was kept."""

    app: str
    generation: int
    published: Published
    kind: RowKind | None
    preview: int


class _Window(NamedTuple):
    ends: Ends
    start: Place | None
    page: RowsPage

    def rows_behind(self, after: Place | None, limit: int) -> RowsPage | None:
        """Return the page behind a place; None if it is not in this window, or only a part of it."""
        rows = self.page.rows
        if after == self.start:
            at = 0
        elif after is None or not rows or not rows[0].place <= after <= rows[-1].place:
            return None
        else:
            at = bisect_right(rows, after, key=_place)
        found = rows[at : at + limit]
        if len(found) < limit and self.page.more and at > 0:
            return None
        return RowsPage(found, self.page.more or at + len(found) < len(rows))


class UpgradeRows:
    """The rows that were found last."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._windows: dict[RowsQuery, _Window] = {}

    def page(self, query: RowsQuery, after: Place | None, limit: int) -> RowsPage:
        with self._lock:
            compared = compared_of(self._log, query.app, query.published)
            ends = [compared.ends(self._log, number) for number in range(compared.partitions)]
            kept = self._windows.pop(query, None)
            found = None if kept is None or kept.ends != ends else kept.rows_behind(after, limit)
            if found is None or kept is None:
                kept = _Window(ends, after, self._read(query, after))
                found = kept.rows_behind(after, limit)
                assert found is not None  # noqa: S101 - it begins at this place
            self._windows[query] = kept
            while len(self._windows) > KEPT_WINDOWS:
                del self._windows[next(iter(self._windows))]
            return found

    def _read(self, query: RowsQuery, after: Place | None) -> RowsPage:
        options: dict[str, Any] = {"kind": query.kind, "preview": query.preview}
        return differing_rows(self._log, query.app, query.published, after=after, limit=KEPT_ROWS, **options)


def _place(row: DifferingRow) -> Place:
    return row.place
