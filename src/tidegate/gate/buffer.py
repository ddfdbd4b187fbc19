"""The events that wait, on disk: one row for each, and one row for each key that says how many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.gate.formats import Buffered, Held, InForce
from tidegate.serde import MsgPack
from tidegate.serde.plain import PLAIN
from tidegate.state.builder import StoreBuilder
from tidegate.state.key_value import KeyValueStore
from tidegate.stores import key_value

Index = KeyValueStore[bytes, Buffered]
Rows = KeyValueStore[tuple[bytes, int], Held]


def stores_of(gate: str) -> tuple[StoreBuilder[Any], StoreBuilder[Any], StoreBuilder[Any]]:
    """What a gate owns: what is in force, what is held, and how much of it. An upgrade keeps them."""
    return (
        key_value(f"{gate}-status", MsgPack[InForce](), key=PLAIN[bytes]).carried(),
        key_value(f"{gate}-held", MsgPack[Held](), key=tuple[bytes, int]).carried(),
        key_value(f"{gate}-index", MsgPack[Buffered](), key=PLAIN[bytes]).carried(),
    )


class Buffer:
    """Of one task. Which keys have something is in memory, read from the index without the events."""

    def __init__(self, rows: Rows, index: Index) -> None:
        self._rows = rows
        self._index = index
        self.keys: dict[bytes, Buffered] = dict(index.all())

    def __contains__(self, key: bytes) -> bool:
        return key in self.keys

    @property
    def count(self) -> int:
        return sum(held.count for held in self.keys.values())

    @property
    def size(self) -> int:
        """Bytes of values and headers."""
        return sum(held.bytes for held in self.keys.values())

    @property
    def oldest(self) -> int | None:
        """When the oldest event came."""
        return min((held.since for held in self.keys.values()), default=None)

    def held(self, key: bytes) -> int:
        found = self.keys.get(key)
        return 0 if found is None else found.count

    def add(self, key: bytes, event: Held, now: int) -> None:
        before = self.keys.get(key) or Buffered(0, 0, 0, 0, now)
        self._rows.put((key, before.next), event)
        after = Buffered(
            before.count + 1, before.bytes + event.size, before.first, before.next + 1, before.since
        )
        self._index.put(key, after)
        self.keys[key] = after

    def reset(self, key: bytes, before: Buffered | None) -> None:
        """What was added was taken back from the stores."""
        if before is None:
            self.keys.pop(key, None)
        else:
            self.keys[key] = before

    def take(self, key: bytes, limit: int, now: int) -> Iterator[Held]:
        """The oldest events of a key, in order; each is gone once the next is asked for."""
        for _ in range(limit):
            held = self.keys.get(key)
            if held is None:
                return
            event = self._rows.get((key, held.first))
            if event is not None:
                yield event
            self._rows.delete((key, held.first))
            self._drop_first(key, held, event, now)

    def _drop_first(self, key: bytes, held: Buffered, event: Held | None, now: int) -> None:
        if held.count == 1:
            self._index.delete(key)
            del self.keys[key]
            return
        size = 0 if event is None else event.size
        left = Buffered(held.count - 1, held.bytes - size, held.first + 1, held.next, now)
        self._index.put(key, left)
        self.keys[key] = left
