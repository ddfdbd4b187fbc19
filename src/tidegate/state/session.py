"""Typed session store: one value per key and time span, found by overlap.

Like a window, a session expires once stream time has passed its end by `retention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from tidegate.errors import StateError
from tidegate.log.topic import LATEST_TIMESTAMP
from tidegate.serde import Serde
from tidegate.state.cached import CachedStore
from tidegate.state.formats import SESSION, session_suffix, session_times
from tidegate.state.store_time import StoreTime

K = TypeVar("K")
V = TypeVar("V")


class Session(NamedTuple, Generic[V]):
    """A time span, both ends inclusive, and its value."""

    start: int
    end: int
    value: V


class SessionStore(Generic[K, V]):
    """Sessions sorted by key, then end, then start."""

    def __init__(
        self,
        name: str,
        rows: CachedStore,
        key: Serde[K],
        value: Serde[V],
        store_time: StoreTime,
        *,
        retention: int,
    ) -> None:
        self.name = name
        self.late_writes = 0
        self._rows = rows
        self._key = key
        self._value = value
        self._store_time = store_time
        self._retention = retention

    def get(self, key: K, start: int, end: int) -> V | None:
        """Return the value of one session, or None."""
        if end < self._first_visible():
            return None
        data = self._rows.get(self._key.encode(key) + session_suffix(end, start))
        return None if data is None else self._value.decode(data)

    def put(self, key: K, start: int, end: int, value: V | None) -> bool:
        """Set the value of a session; None deletes it. If the session has expired, return False and count a
        late write."""
        if start > end:
            raise StateError(
                "bad-session", f"a session cannot start at {start} and end at {end}", "swap start and end"
            )
        row = self._key.encode(key) + session_suffix(end, start)
        if end < self._first_visible():
            self.late_writes += 1
            return False
        data = None if value is None else self._value.encode(value)
        self._rows.put(row, data, self._store_time.timestamp)
        return True

    def delete(self, key: K, start: int, end: int) -> None:
        self.put(key, start, end, None)

    def fetch(
        self, key: K, since: int = 0, until: int | None = None, *, reverse: bool = False
    ) -> Iterator[Session[V]]:
        """Yield sessions of one key that overlap the time from `since` to `until`, both inclusive, by their
        end."""
        data = self._key.encode(key)
        lower = data, session_suffix(max(since, self._first_visible(), 0), 0)
        upper = data, session_suffix(LATEST_TIMESTAMP, LATEST_TIMESTAMP)
        latest = LATEST_TIMESTAMP if until is None else until
        for row, value in self._rows.scan(lower, upper, reverse=reverse):
            end, start = session_times(row)
            if start <= latest:
                yield Session(start, end, self._value.decode(value))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, Session[V]]]:
        """Yield all sessions, by key, then end."""
        first = self._first_visible()
        for row, value in self._rows.scan(None, None, reverse=reverse):
            end, start = session_times(row)
            if end >= first:
                yield self._key.decode(row[: -SESSION.suffix]), Session(start, end, self._value.decode(value))

    def _first_visible(self) -> int:
        return self._store_time.stream_time - self._retention + 1
