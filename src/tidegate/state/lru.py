"""A bounded store: above its capacity, the least recently used key is evicted.

An eviction is a delete like any other: it is logged, so a restored store holds the same keys. Reads count as
use but are not logged: after a restore, keys are ordered by their last write.
"""

from __future__ import annotations

from collections import OrderedDict

from tidegate.state.cached import CachedStore
from tidegate.state.memory import MemoryStore


class LruStore(CachedStore):
    """A cache over a memory store that keeps at most `capacity` keys."""

    def __init__(self, inner: MemoryStore, capacity: int) -> None:
        super().__init__(inner)
        self._memory = inner
        self._capacity = capacity
        self._used: OrderedDict[bytes, None] | None = None
        self._written: dict[bytes, int] = {}
        self._written_before: list[tuple[bytes, int | None]] = []

    def get(self, key: bytes) -> bytes | None:
        value = super().get(key)
        if value is not None:
            self._recent().move_to_end(key)
        return value

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        used = self._recent()
        self._write(key, value, timestamp)
        if value is None:
            used.pop(key, None)
            return
        used[key] = None
        used.move_to_end(key)
        while len(used) > self._capacity:
            oldest, _ = used.popitem(last=False)
            self._write(oldest, None, timestamp)

    def forget(self) -> None:
        super().forget()
        self._written = {}

    def begin_record(self) -> None:
        super().begin_record()
        self._written_before = []

    def roll_back(self) -> None:
        super().roll_back()
        for key, before in reversed(self._written_before):
            if before is None:
                del self._written[key]
            else:
                self._written[key] = before
        self._changes = {
            key: self._changes[key] for key in sorted(self._changes, key=self._written.__getitem__)
        }
        self._used = None

    def _write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Write, and keep the changes in the order of their last write: a restore reads the order from the
        changelog."""
        if self._undo is not None:
            self._written_before.append((key, self._written.get(key)))
        super().put(key, value, timestamp)
        self._changes[key] = self._changes.pop(key)
        self._written[key] = self._writes

    def _recent(self) -> OrderedDict[bytes, None]:
        """Return keys in the order of their use; after opening or an undone record, of their last write."""
        if self._used is None:
            self._used = OrderedDict.fromkeys(self._memory.by_last_write())
            for key, change in self.changes().items():
                self._used.pop(key, None)
                if change[0] is not None:
                    self._used[key] = None
        return self._used
