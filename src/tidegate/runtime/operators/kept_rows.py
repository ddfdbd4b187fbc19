"""The rows of an aggregate or a table as its step uses them: bytes, and the time of each.

User code may mutate its arguments and results at any later time. So no object that user code has seen is used
again: a step gets a state that was decoded for it alone, its result is encoded at once, and what other steps
get is decoded from those bytes. Numbers and text of a plain serde are immutable and have one encoding, so
they are passed on as they are.

A row's time is the largest of the records that contributed to it. Stores that a user passed and that keep no
times (`stores.key_value`, `in_memory`, `lru`, the user's own) give each result the time of its record.
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
from tidegate.state.formats import TIME_BYTES, checked_time, times_of, with_time, with_times
from tidegate.topology.node import Node, NodeKind

NO_TIME = -1
_PLAIN_TYPES = (int, str, bytes, bool)


class KeptRows:
    """The rows of one store in one task. Keys and values are bytes; a time is -1 if there is none."""

    def __init__(self, builder: StoreBuilder[Any], store: Any) -> None:
        self.rows: CachedStore = store.rows
        self._get: Callable[[bytes], bytes | None] = store.rows.get
        self._serde = builder.value
        self.encode, self.decode = builder.value.encode, builder.value.decode
        self.key = builder.key.encode
        self.timed = builder.layout.timestamped
        self.plain = _plain_type(builder)
        """The type whose values can be used in place of their bytes; None if there is no such type."""
        self.numbers = self.timed and builder.value is PLAIN[int]
        """Whether `number_rows` knows the bytes of a row."""

    def load(self, key: bytes) -> tuple[bytes | None, int]:
        """Return the bytes and the time of a row; None and no time if there is no row."""
        data = self._get(key)
        if data is None or not self.timed:
            return data, NO_TIME
        return data[8:], int.from_bytes(data[:8], "big")

    def save(self, key: bytes, data: bytes | None, time: int) -> None:
        """Set a row; None deletes it. The changelog record has the row's time."""
        if data is not None and self.timed:
            self.rows.put(key, with_time(data, time), time)
        else:
            self.rows.put(key, data, checked_time(time))

    def load_many(self, keys: Sequence[bytes]) -> tuple[list[bytes | None], list[int]]:
        """Return the rows of many keys."""
        found = self.rows.get_many(keys)
        if not self.timed:
            return found, [NO_TIME] * len(found)
        times = times_of(found, NO_TIME)
        return [None if data is None else data[8:] for data in found], times

    def save_many(self, keys: Sequence[bytes], rows: Sequence[bytes | None], times: Sequence[int]) -> None:
        """Set the rows of distinct keys."""
        self.save_rows(keys, with_times(rows, times) if self.timed else rows, times)

    def save_rows(self, keys: Sequence[bytes], rows: Sequence[bytes | None], times: Sequence[int]) -> None:
        """As `save_many`, for rows that have their times."""
        if times:
            checked_time(min(times))
            checked_time(max(times))
        self.rows.put_many(keys, rows, times)

    def check_plain(self, keys: Sequence[bytes], group: pa.Array[Any], values: Sequence[Any]) -> None:
        """Raise if one of these values of type `plain`, or None, is too large to store. `group` is the index
        of each value's key."""
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
                raise self.rows.too_large(len(keys[number]) + len(row or b""))

    def _fits(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> bool:
        """Return whether the longest key fits with the longest row."""
        longest = max((len(row) for row in rows if row is not None), default=0)
        return max(map(len, keys)) + longest + (TIME_BYTES if self.timed else 0) <= self.rows.largest

    # --- values ---------------------------------------------------------------------------------------

    def read(self, data: bytes | None) -> Any:
        """Decode a row: a new object for each caller."""
        return None if data is None else self.decode(data)

    def read_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """Decode many rows."""
        there = iter(self._serde.decode_many([one for one in data if one is not None]))
        return [None if one is None else next(there) for one in data]

    def written(self, value: Any) -> bytes | None:
        """Encode a value; None for no row."""
        return None if value is None else self.encode(value)

    def written_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Encode many values."""
        there = iter(self._serde.encode_many([one for one in values if one is not None]))
        return [None if one is None else next(there) for one in values]

    def isolated(self, value: Any, data: bytes | None) -> Any:
        """Return the value of `data` as an object that user code has not seen in `value`."""
        return value if type(value) is self.plain else self.read(data)


def initial_value(initial: Callable[[], Any]) -> Callable[[], Any]:
    """Return a factory of the value that a new key begins with. A user's function may return one object for
    all keys: each key gets a copy."""
    return initial if isinstance(initial, type) else lambda: copy.deepcopy(initial())


def wants_old(chain: Chain, node: Node) -> bool:
    """Return whether a step behind a table uses the values that changes replace. Sinks only need to know
    whether there was one, and stream joins nothing."""
    return any(
        child.kind not in (NodeKind.TABLE_SINK, NodeKind.JOIN) for child in chain.topology.children(node.id)
    )


def _plain_type(builder: StoreBuilder[Any]) -> type | None:
    if isinstance(builder.value, JavaLong):
        return int
    return next((kind for kind in _PLAIN_TYPES if PLAIN[kind] is builder.value), None)
