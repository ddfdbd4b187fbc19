"""Typed window store: one value per key and window start.

A window ends `size` after its start and expires once stream time has passed its end by `retention`: from then
on it can be neither read nor written, and its rows are tombstoned in the changelog, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from tidegate.log.topic import LATEST_TIMESTAMP
from tidegate.serde import Serde
from tidegate.state.cached import CachedStore
from tidegate.state.formats import WINDOW, window_start, window_suffix
from tidegate.state.store_time import StoreTime

K = TypeVar("K")
V = TypeVar("V")


class WindowStore(Generic[K, V]):
    """Windows sorted by key, then start."""

    def __init__(
        self,
        name: str,
        rows: CachedStore,
        key: Serde[K],
        value: Serde[V],
        store_time: StoreTime,
        *,
        size: int,
        retention: int,
    ) -> None:
        self.name = name
        self.late_writes = 0
        self._rows = rows
        self._key = key
        self._value = value
        self._store_time = store_time
        self._size = size
        self._retention = retention

    def get(self, key: K, start: int) -> V | None:
        """Return the value of one window, or None."""
        if start < self._first_visible():
            return None
        data = self._rows.get(self._key.encode(key) + window_suffix(start))
        return None if data is None else self._value.decode(data)

    def put(self, key: K, start: int, value: V | None) -> bool:
        """Set the value of a window; None deletes it. If the window has expired, return False and count a
        late write."""
        row = self._key.encode(key) + window_suffix(start)
        if start < self._first_visible():
            self.late_writes += 1
            return False
        data = None if value is None else self._value.encode(value)
        self._rows.put(row, data, self._store_time.timestamp)
        return True

    def delete(self, key: K, start: int) -> None:
        self.put(key, start, None)

    def fetch(
        self, key: K, since: int = 0, until: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]:
        """Yield the windows of one key that start from `since` to below `until`: (start, value)."""
        data = self._key.encode(key)
        lower = data, window_suffix(max(since, self._first_visible(), 0))
        upper = data, window_suffix(max(0, LATEST_TIMESTAMP if until is None else until))
        for row, value in self._rows.scan(lower, upper, reverse=reverse):
            yield window_start(row), self._value.decode(value)

    def all(
        self, since: int = 0, until: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, int, V]]:
        """Yield the windows of all keys that start from `since` to below `until`: (key, start, value)."""
        first, stop = max(since, self._first_visible()), LATEST_TIMESTAMP if until is None else until
        for row, value in self._rows.scan(None, None, reverse=reverse):
            start = window_start(row)
            if first <= start < stop:
                yield self._key.decode(row[: -WINDOW.suffix]), start, self._value.decode(value)

    def _first_visible(self) -> int:
        return self._store_time.stream_time - self._retention - self._size + 1
