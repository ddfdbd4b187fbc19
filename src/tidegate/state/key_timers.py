"""Key timers: one timer per key, found by key and by time.

    "k" + key               the time
    "t" + time (8) + key    the time

Both rows are in one plain store, so a timer is logged, restored, undone and committed like any other row, and
due timers are a short range at the start of the second kind: encoded numbers sort like the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

from tidegate.serde import Serde
from tidegate.serde.plain import PLAIN
from tidegate.state.cached import CachedStore
from tidegate.state.formats import checked_time
from tidegate.state.keys import Bound
from tidegate.state.store_time import StoreTime

K = TypeVar("K")

DUE_AT_ONCE = 1000
_BY_KEY, _BY_TIME, _AFTER_KEYS = b"k", b"t", b"l"

_encode, _decode = PLAIN[int].encode, PLAIN[int].decode

TimerEntry = tuple[int, bytes]
"""A time and the bytes of a key: timers fire in this order."""


class KeyTimers(Generic[K]):
    """At most one timer per key. When the store's clock reaches it, the step that declares the store is
    called once, `on_timer(key, at, ctx)`; the timer is removed in the same transaction as the effects of the
    call."""

    def __init__(self, name: str, rows: CachedStore, key: Serde[K], store_time: StoreTime) -> None:
        self.name = name
        self.soonest: TimerEntry = (0, b"")
        """No timer is before this: until the clock reaches it, no timer is due."""
        self._rows = rows
        self._key = key
        self._store_time = store_time

    def set(self, key: K, at_ms: int) -> None:
        """Set the key's timer to this time, instead of an earlier setting. A past time is due at once."""
        data, time = self._key.encode(key), _encode(checked_time(at_ms))
        self._forget(data)
        self._rows.put(_BY_KEY + data, time, self._store_time.timestamp)
        self._rows.put(_BY_TIME + time + data, time, self._store_time.timestamp)
        self.soonest = min(self.soonest, (at_ms, data))

    def cancel(self, key: K) -> None:
        """Remove the key's timer, if it has one."""
        self._forget(self._key.encode(key))

    def get(self, key: K) -> int | None:
        """Return the time of a key's timer, or None."""
        time = self._rows.get(_BY_KEY + self._key.encode(key))
        return None if time is None else _decode(time)

    def all(self) -> Iterator[tuple[K, int]]:
        """Yield all timers, by key. Read all rows before the store is written again."""
        for row, time in self._rows.scan((_BY_KEY, b""), (_AFTER_KEYS, b"")):
            yield self._key.decode(row[1:]), _decode(time)

    def due(self, now_ms: int, limit: int = DUE_AT_ONCE) -> list[tuple[K, int]]:
        """Return the first timers with a time of `now_ms` or before, by time and key."""
        return [(self._key.decode(data), at) for at, data in self._between((0, b""), now_ms, limit)]

    # --- used by the task -----------------------------------------------------------------------------

    def next_due(self, now_ms: int, limit: int) -> list[TimerEntry]:
        """Return the first due timers. `soonest` moves after them: a caller that does not take them all moves
        it back."""
        if self.soonest[0] > now_ms:
            return []
        found = self._between(self.soonest, now_ms, limit)
        if len(found) == limit:
            at, data = found[-1]
            self.soonest = (at, data + b"\x00")
        else:
            self.soonest = (now_ms + 1, b"")
        return found

    def take(self, entry: TimerEntry) -> K | None:
        """Remove a timer and return its key; None if it was cancelled or set to another time since."""
        at, data = entry
        time = self._rows.get(_BY_KEY + data)
        if time is None or _decode(time) != at:
            if self._rows.get(_BY_TIME + _encode(at) + data) is not None:
                raise self._rows.damaged(f"store {self.name!r} has a timer by its time, but not by its key")
            return None
        self._forget(data)
        return self._key.decode(data)

    def _forget(self, data: bytes) -> None:
        time = self._rows.get(_BY_KEY + data)
        if time is not None:
            self._rows.put(_BY_KEY + data, None, self._store_time.timestamp)
            self._rows.put(_BY_TIME + time + data, None, self._store_time.timestamp)

    def _between(self, start: TimerEntry, now_ms: int, limit: int) -> list[TimerEntry]:
        if now_ms < start[0]:
            return []
        rows = self._rows.scan(_bound(*start), _bound(now_ms + 1, b""))
        return [(_decode(time), row[9:]) for row, time in islice(rows, limit)]


def _bound(at: int, data: bytes) -> Bound:
    return _BY_TIME + _encode(at) + data, b""
