"""Typed sessions: one value per key and span of time, found by overlap.

A session is gone once stream time has passed its end by `retention`, as a window is.
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
    """A span of time, both ends included, and its value."""

    start: int
    end: int
    value: V


class SessionStore(Generic[K, V]):
    """Rows by key, then end, then start."""

    def __init__(
        self,
        name: str,
        rows: CachedStore,
        key: Serde[K],
        value: Serde[V],
        moment: StoreTime,
        *,
        retention: int,
    ) -> None:
        self.name = name
        self.late_writes = 0
        self._rows = rows
        self._key = key
        self._value = value
        self._moment = moment
        self._retention = retention

    def get(self, key: K, start: int, end: int) -> V | None:
        """The value of one session, or None."""
        if end < self._first_visible():
            return None
        data = self._rows.get(self._key.encode(key) + session_suffix(end, start))
        return None if data is None else self._value.decode(data)

    def put(self, key: K, start: int, end: int, value: V | None) -> bool:
        """Set the value of a session; None deletes. False, and counted, if it is gone already."""
        if start > end:
            raise StateError(
                "bad-session", f"a session cannot start at {start} and end at {end}", "swap them"
            )
        row = self._key.encode(key) + session_suffix(end, start)
        if end < self._first_visible():
            self.late_writes += 1
            return False
        data = None if value is None else self._value.encode(value)
        self._rows.put(row, data, self._moment.timestamp)
        return True

    def delete(self, key: K, start: int, end: int) -> None:
        self.put(key, start, end, None)

    def fetch(
        self, key: K, since: int = 0, until: int | None = None, *, reverse: bool = False
    ) -> Iterator[Session[V]]:
        """Sessions of one key that overlap the time from `since` to `until`, both included, by their end."""
        data = self._key.encode(key)
        lower = data, session_suffix(max(since, self._first_visible(), 0), 0)
        upper = data, session_suffix(LATEST_TIMESTAMP, LATEST_TIMESTAMP)
        latest = LATEST_TIMESTAMP if until is None else until
        for row, value in self._rows.scan(lower, upper, reverse=reverse):
            end, start = session_times(row)
            if start <= latest:
                yield Session(start, end, self._value.decode(value))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, Session[V]]]:
        """All sessions, by key, then end."""
        first = self._first_visible()
        for row, value in self._rows.scan(None, None, reverse=reverse):
            end, start = session_times(row)
            if end >= first:
                yield self._key.decode(row[: -SESSION.suffix]), Session(start, end, self._value.decode(value))

    def _first_visible(self) -> int:
        return self._moment.stream_time - self._retention + 1
