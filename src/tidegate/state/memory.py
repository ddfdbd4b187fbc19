"""A store's rows in memory: always restored in full from the changelog."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from tidegate.errors import StateError
from tidegate.state.keys import Bound
from tidegate.state.protocol import RawRow, Token


def splitter(suffix: int) -> Callable[[bytes], Bound]:
    """Return the function that splits a key and its suffix into the pair by which rows are sorted."""

    def split(key: bytes) -> Bound:
        cut = len(key) - suffix
        return key[:cut], key[cut:]

    return split


class SortedKeys:
    """Keys kept sorted from the first scan on: a store that is never scanned pays nothing."""

    def __init__(self, suffix: int) -> None:
        self._split = splitter(suffix)
        self._order: list[bytes] = []
        self.sorted = False

    def added(self, key: bytes) -> None:
        """Insert a new key; only needed once `sorted`."""
        insort(self._order, key, key=self._split)

    def changed(self) -> None:
        """Sort again at the next scan."""
        self.sorted = False

    def between(self, keys: Iterable[bytes], lower: Bound | None, upper: Bound | None) -> list[bytes]:
        if not self.sorted:
            self._order = sorted(keys, key=self._split)
            self.sorted = True
        first = 0 if lower is None else bisect_left(self._order, lower, key=self._split)
        last = len(self._order) if upper is None else bisect_left(self._order, upper, key=self._split)
        return self._order[first:last]


class MemoryStore:
    """A bytes store in a dict."""

    def __init__(self, suffix: int = 0) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._keys = SortedKeys(suffix)
        self._scan_version = 0

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows.get(key) for key in keys]

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        scan_version = self._scan_version
        keys = self._keys.between(self._rows, lower, upper)
        for key in reversed(keys) if reverse else keys:
            if self._scan_version != scan_version:
                raise StateError(
                    "scan-ended",
                    "a scan of a store was continued after a commit",
                    "read all rows of a scan before the next record",
                )
            yield key, self._rows[key]

    def apply(self, rows: Iterable[RawRow], token: Token | None = None) -> None:  # noqa: ARG002
        self._scan_version += 1
        self._keys.changed()
        for key, value in rows:
            self._rows.pop(key, None)
            if value is not None:
                self._rows[key] = value

    def clear(self) -> None:
        self.apply([(key, None) for key in self._rows])

    def by_last_write(self) -> list[bytes]:
        """Return all keys, the least recently written first."""
        return list(self._rows)
