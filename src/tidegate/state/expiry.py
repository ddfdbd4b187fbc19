"""Find ended windows and sessions in a store without an index by end time: a user's own.

The rows are scanned in the order of their keys, some at each commit, and only while a row may have ended:
each scan finds out when the next row will end. tidegate's own stores have an index and need no scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.state.keys import Bound
from tidegate.state.memory import splitter
from tidegate.state.protocol import BytesStore

EndOf = Callable[[bytes], int]
"""Maps a row's key to the time at which its window or session ends."""
_NEVER = 1 << 63


class Expiry:
    """Finds the ended rows of one store. Until its first scan is complete, any row may have ended."""

    def __init__(self, rows: BytesStore, suffix: int, end_of: EndOf) -> None:
        self._rows = rows
        self._split = splitter(suffix)
        self._end_of = end_of
        self._earliest = 0
        """No row of the store ends before this time."""
        self._in_scan = _NEVER
        """The same for the rows that the current scan has passed and those written since it began."""
        self._at: Bound | None = None

    def written(self, keys: Iterable[bytes]) -> None:
        """Note the keys of rows that the next commit writes."""
        earliest = min(map(self._end_of, keys), default=_NEVER)
        self._earliest = min(self._earliest, earliest)
        self._in_scan = min(self._in_scan, earliest)

    def ended(self, before: int, limit: int) -> list[bytes]:
        """Return keys of rows that end before a time. Reads at most `limit` rows."""
        if self._earliest >= before:
            return []
        found: list[bytes] = []
        at, passed = self._at, 0
        for key, _ in self._rows.scan(at, None):
            bound = self._split(key)
            if at is not None and bound <= at:
                continue
            if passed == limit:
                return found
            passed += 1
            self._at = bound
            end = self._end_of(key)
            if end < before:
                found.append(key)
            else:
                self._in_scan = min(self._in_scan, end)
        self._at = None
        self._earliest, self._in_scan = self._in_scan, _NEVER
        return found
