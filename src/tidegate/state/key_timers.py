"""Timers of keys: one time per key, found by key and by time.

    "k" + key               the time
    "t" + time (8) + key    the time

Both rows lie in one plain store, so a timer is logged, restored, taken back and committed like any other row,
and those that are due are a short range from the front: the bytes of numbers sort as the numbers do.
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
_BY_KEY, _BY_TIME, _BEHIND_KEYS = b"k", b"t", b"l"

_encode, _decode = PLAIN[int].encode, PLAIN[int].decode

Place = tuple[int, bytes]
"""A time and the bytes of a key: timers come in this order."""


class KeyTimers(Generic[K]):
    """At most one timer per key. When the store's clock has reached it, the step that declares the store is
    called once, `on_timer(key, at, ctx)`; the timer is gone then, in one unit with what the call does."""

    def __init__(self, name: str, rows: CachedStore, key: Serde[K], moment: StoreTime) -> None:
        self.name = name
        self.soonest: Place = (0, b"")
        """No timer lies before this. As long as the clock has not come here there is nothing to look for."""
        self._rows = rows
        self._key = key
        self._moment = moment

    def set(self, key: K, at_ms: int) -> None:
        """Call for this key at this time, and not at one set before. A time that is past is due at once."""
        data, time = self._key.encode(key), _encode(checked_time(at_ms))
        self._forget(data)
        self._rows.put(_BY_KEY + data, time, self._moment.timestamp)
        self._rows.put(_BY_TIME + time + data, time, self._moment.timestamp)
        self.soonest = min(self.soonest, (at_ms, data))

    def cancel(self, key: K) -> None:
        """Do not call for this key; fine if nothing is set."""
        self._forget(self._key.encode(key))

    def get(self, key: K) -> int | None:
        """The time that is set for a key, or None."""
        time = self._rows.get(_BY_KEY + self._key.encode(key))
        return None if time is None else _decode(time)

    def all(self) -> Iterator[tuple[K, int]]:
        """All timers by key. Rows of a scan must be read before the store is written again."""
        for row, time in self._rows.scan((_BY_KEY, b""), (_BEHIND_KEYS, b"")):
            yield self._key.decode(row[1:]), _decode(time)

    def due(self, now_ms: int, limit: int = DUE_AT_ONCE) -> list[tuple[K, int]]:
        """The first timers that are set for `now_ms` or before, by time and key."""
        return [(self._key.decode(data), at) for at, data in self._between((0, b""), now_ms, limit)]

    # --- what the task asks ---------------------------------------------------------------------------

    def next_due(self, now_ms: int, limit: int) -> list[Place]:
        """The first due timers. `soonest` moves behind them: who does not take them all moves it back."""
        if self.soonest[0] > now_ms:
            return []
        found = self._between(self.soonest, now_ms, limit)
        if len(found) == limit:
            at, data = found[-1]
            self.soonest = (at, data + b"\x00")
        else:
            self.soonest = (now_ms + 1, b"")
        return found

    def take(self, place: Place) -> K | None:
        """Take a timer out; its key, or None if meanwhile it was cancelled or set to another time."""
        at, data = place
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
            self._rows.put(_BY_KEY + data, None, self._moment.timestamp)
            self._rows.put(_BY_TIME + time + data, None, self._moment.timestamp)

    def _between(self, start: Place, now_ms: int, limit: int) -> list[Place]:
        if now_ms < start[0]:
            return []
        rows = self._rows.scan(_bound(*start), _bound(now_ms + 1, b""))
        return [(_decode(time), row[9:]) for row, time in islice(rows, limit)]


def _bound(at: int, data: bytes) -> Bound:
    return _BY_TIME + _encode(at) + data, b""
