"""The held events on disk: one row per event, and one row per key with their number."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidegate.errors import StateError
from tidegate.gate.formats import Buffered, Held, InForce
from tidegate.serde import MsgPack
from tidegate.serde.plain import PLAIN
from tidegate.state.builder import StoreBuilder
from tidegate.state.key_value import KeyValueStore
from tidegate.stores import key_value

Index = KeyValueStore[bytes, Buffered]
HeldRows = KeyValueStore[tuple[bytes, int], Held]
NOTHING = Buffered(0, 0, 0, 0, -1)
SPARE = 1000
_IN_FORCE, _HELD, _BUFFERED = MsgPack[InForce](), MsgPack[Held](), MsgPack[Buffered]()
_EVENT_KEY = key_value("held", _HELD, key=tuple[bytes, int]).key
"""A serde inspects its type when it is created, which takes as long as a read: every query has stores."""


def stores_of(gate: str) -> tuple[StoreBuilder[Any], StoreBuilder[Any], StoreBuilder[Any]]:
    """Return the stores of a gate: the statuses in force, the held events, and the index of them. An upgrade
    keeps them."""
    return (
        key_value(f"{gate}-status", _IN_FORCE, key=PLAIN[bytes]).carried(),
        key_value(f"{gate}-held", _HELD, key=_EVENT_KEY).carried(),
        key_value(f"{gate}-index", _BUFFERED, key=PLAIN[bytes]).carried(),
    )


class Buffer:
    """The held events of one task. Which keys have any is kept in memory, read from the index without the
    events."""

    def __init__(self, rows: HeldRows, index: Index, damaged: Callable[[], None]) -> None:
        """`damaged` marks the task's folder: it is rebuilt from the changelogs when the task is opened."""
        self._rows = rows
        self._index = index
        self._damaged = damaged
        self.keys: dict[bytes, Buffered] = dict(index.all())
        self.count = sum(held.count for held in self.keys.values())
        self.size = sum(held.bytes for held in self.keys.values())
        """Bytes of values and headers."""
        self._times = self._in_heap()

    def __contains__(self, key: bytes) -> bool:
        return key in self.keys

    @property
    def oldest(self) -> int | None:
        """When the oldest event was held."""
        while self._times:
            since, key = self._times[0]
            held = self.keys.get(key)
            if held is not None and held.since == since:
                return since
            heapq.heappop(self._times)
        return None

    def held(self, key: bytes) -> int:
        found = self.keys.get(key)
        return 0 if found is None else found.count

    def add(self, key: bytes, event: Held) -> None:
        before = self.keys.get(key) or Buffered(0, 0, 0, 0, event.at)
        self._rows.put((key, before.next), event)
        after = Buffered(
            before.count + 1, before.bytes + event.size, before.first, before.next + 1, before.since
        )
        self._index.put(key, after)
        self.reset(key, after)

    def reset(self, key: bytes, to: Buffered | None) -> None:
        """Set what is kept in memory for a key; the stores change, or roll back, on their own."""
        before = self.keys.pop(key, NOTHING)
        after = NOTHING if to is None else to
        self.count += after.count - before.count
        self.size += after.bytes - before.bytes
        if to is not None:
            self.keys[key] = to
            if to.since != before.since:
                heapq.heappush(self._times, (to.since, key))
        if len(self._times) > 2 * len(self.keys) + SPARE:
            self._times = self._in_heap()

    def take(self, key: bytes, limit: int) -> Iterator[Held]:
        """Yield the oldest events of a key, in order; each is deleted when the next is requested. Raises
        StateError `corrupt-state` if the index counts an event that does not exist: nothing may be committed
        then."""
        held = self.keys.get(key)
        event = None if held is None else self._row(key, held)
        for _ in range(limit):
            if held is None or event is None:
                return
            yield event
            self._rows.delete((key, held.first))
            held, event = self._without_first(key, held, event)

    def _without_first(self, key: bytes, held: Buffered, taken: Held) -> tuple[Buffered | None, Held | None]:
        """Return the remaining entry of the index and its oldest event, whose time is now the oldest."""
        if held.count == 1:
            self._index.delete(key)
            self.reset(key, None)
            return None, None
        left = Buffered(held.count - 1, held.bytes - taken.size, held.first + 1, held.next, held.since)
        oldest = self._row(key, left)
        if oldest.at:
            left = msgspec.structs.replace(left, since=oldest.at)
        self._index.put(key, left)
        self.reset(key, left)
        return left, oldest

    def _in_heap(self) -> list[tuple[int, bytes]]:
        """Return a heap of the time of each key's oldest event. Outdated times are skipped when they come up,
        and removed when there are too many."""
        times = [(held.since, key) for key, held in self.keys.items()]
        heapq.heapify(times)
        return times

    def _row(self, key: bytes, held: Buffered) -> Held:
        found = self._rows.get((key, held.first))
        if found is None:
            self._damaged()
            raise StateError(
                "corrupt-state",
                f"store {self._rows.name!r} lacks event {held.first} of a key that has {held.count} held",
                "close the task and open it again: the store is rebuilt from the log",
            )
        return found
