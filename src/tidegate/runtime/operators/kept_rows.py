"""The rows of an aggregate or a table as its step works with them: bytes, and the time of each.

User code may change what it is given in place, and what it returned, at any later time. So nothing that it
had in its hands is used again: a step gets a state that was decoded for it alone, what it returns is encoded
at once, and what goes on to other steps is decoded from those bytes. Numbers and text of a plain serde cannot
be changed and have one form, so they are used as they are.

A row's time is the largest of the records that made it. Stores that a user passed and that keep no times
(`stores.key_value`, `in_memory`, `lru`, one's own) leave each result the time of its record.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.runtime.operators.step import Chain
from tidegate.serde.java import JavaLong
from tidegate.serde.plain import PLAIN
from tidegate.state.builder import StoreBuilder
from tidegate.state.cached import CachedStore
from tidegate.state.formats import checked_time, time_of, with_time
from tidegate.topology.node import Node, NodeKind

NO_TIME = -1
TIME_BYTES = 8
_PLAIN_TYPES = (int, str, bytes, bool)


class KeptRows:
    """One store of one task. Keys and values are bytes here; times are -1 where there is none."""

    def __init__(self, builder: StoreBuilder[Any], store: Any) -> None:
        self._rows: CachedStore = store.rows
        self._get: Callable[[bytes], bytes | None] = store.rows.get
        self._serde = builder.value
        self._encode, self._decode = builder.value.encode, builder.value.decode
        self.key = builder.key.encode
        self.timed = builder.layout.timestamped
        self.plain = _plain_type(builder)
        """The type whose values are as good as their bytes; None if there is no such type."""

    def load(self, key: bytes) -> tuple[bytes | None, int]:
        """The bytes and the time of a row; None and no time if there is none."""
        data = self._get(key)
        if data is None or not self.timed:
            return data, NO_TIME
        return data[8:], int.from_bytes(data[:8], "big")

    def save(self, key: bytes, data: bytes | None, time: int) -> None:
        """Set a row; None deletes it. The changelog record has the row's time."""
        if data is not None and self.timed:
            self._rows.put(key, with_time(data, time), time)
        else:
            self._rows.put(key, data, checked_time(time))

    def load_many(self, keys: Sequence[bytes]) -> tuple[list[bytes | None], list[int]]:
        """The same for many keys."""
        found = self._rows.get_many(keys)
        if not self.timed:
            return found, [NO_TIME] * len(found)
        times = [NO_TIME if data is None else time_of(data) for data in found]
        return [None if data is None else data[8:] for data in found], times

    def save_many(self, keys: Sequence[bytes], rows: Sequence[bytes | None], times: Sequence[int]) -> None:
        """The same for different keys."""
        if self.timed:
            each = zip(rows, times, strict=True)
            rows = [None if data is None else with_time(data, time) for data, time in each]
        self._rows.put_many(keys, rows, [checked_time(time) for time in times])

    def check_plain(self, keys: Sequence[bytes], group: pa.Array[Any], values: Sequence[Any]) -> None:
        """Raise if one of these values of `plain`, or None, would not be stored. `group` is the place of each
        one's key."""
        there = [value for value in values if value is not None]
        if self.plain is int and there:
            limits = self.written_many([min(there), max(there)])
            if self._fits(keys, limits):
                return
        if there and self.plain is not bool:
            self.check_sizes(keys, group, self.written_many(values))

    def check_sizes(self, keys: Sequence[bytes], group: pa.Array[Any], rows: Sequence[bytes | None]) -> None:
        """Raise if one of these rows is too large for its store."""
        if self._fits(keys, rows):
            return
        for number, row in zip(group.to_pylist(), rows, strict=True):
            if not self._fits([keys[number]], [row]):
                raise self._rows.too_large(len(keys[number]) + len(row or b""))

    def _fits(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> bool:
        """Whether the longest key with the longest row does."""
        longest = max((len(row) for row in rows if row is not None), default=0)
        return max(map(len, keys)) + longest + (TIME_BYTES if self.timed else 0) <= self._rows.largest

    # --- values ---------------------------------------------------------------------------------------

    def read(self, data: bytes | None) -> Any:
        """A new value for each caller."""
        return None if data is None else self._decode(data)

    def read_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """One for each."""
        there = iter(self._serde.decode_many([one for one in data if one is not None]))
        return [None if one is None else next(there) for one in data]

    def written(self, value: Any) -> bytes | None:
        """The bytes of a value; None, no row, has none."""
        return None if value is None else self._encode(value)

    def written_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Those of each."""
        there = iter(self._serde.encode_many([one for one in values if one is not None]))
        return [None if one is None else next(there) for one in values]

    def apart(self, value: Any, data: bytes | None) -> Any:
        """What `data` holds, for others than those who had `value` in their hands."""
        return value if type(value) is self.plain else self.read(data)


def made_by(initial: Callable[[], Any]) -> Callable[[], Any]:
    """What a new key begins with. A function may return one object for all keys: each gets its own."""
    return initial if isinstance(initial, type) else lambda: copy.deepcopy(initial())


def wants_old(chain: Chain, node: Node) -> bool:
    """Whether a step behind a table looks at the values that changes replace. Sinks only need to know
    whether there was one, and joins of streams nothing."""
    return any(
        child.kind not in (NodeKind.TABLE_SINK, NodeKind.JOIN) for child in chain.topology.children(node.id)
    )


def _plain_type(builder: StoreBuilder[Any]) -> type | None:
    if isinstance(builder.value, JavaLong):
        return int
    return next((kind for kind in _PLAIN_TYPES if PLAIN[kind] is builder.value), None)
