"""Finding ended windows and sessions in a store that keeps no index by end time: a user's own.

The rows are walked through in the order of their keys, some at each commit, and only while a row may have
ended: each walk learns when the next one will. A store of ours has an index and walks through nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.state.keys import Bound
from tidegate.state.memory import splitter
from tidegate.state.protocol import BytesStore

EndOf = Callable[[bytes], int]
"""From a row's key to the time at which its window or session ends."""
_NEVER = 1 << 63


class Expiry:
    """Of one store. Until the first walk is over, nothing is known of what the store holds."""

    def __init__(self, rows: BytesStore, suffix: int, end_of: EndOf) -> None:
        self._rows = rows
        self._split = splitter(suffix)
        self._end_of = end_of
        self._earliest = 0
        """No row of the store ends before."""
        self._in_walk = _NEVER
        """The same, of the rows that the walk passed and of those that came since it began."""
        self._at: Bound | None = None

    def written(self, keys: Iterable[bytes]) -> None:
        """These rows come with the next commit."""
        earliest = min(map(self._end_of, keys), default=_NEVER)
        self._earliest = min(self._earliest, earliest)
        self._in_walk = min(self._in_walk, earliest)

    def ended(self, before: int, limit: int) -> list[bytes]:
        """Keys of rows whose end lies before a time. Looks at no more than `limit` rows."""
        if self._earliest >= before:
            return []
        found: list[bytes] = []
        at, passed = self._at, 0
        for key, _ in self._rows.scan(at, None):
            place = self._split(key)
            if at is not None and place <= at:
                continue
            if passed == limit:
                return found
            passed += 1
            self._at = place
            end = self._end_of(key)
            if end < before:
                found.append(key)
            else:
                self._in_walk = min(self._in_walk, end)
        self._at = None
        self._earliest, self._in_walk = self._in_walk, _NEVER
        return found
