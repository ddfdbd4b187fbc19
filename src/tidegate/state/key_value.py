"""Typed stores of one value per key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from tidegate.errors import StateError
from tidegate.serde import Serde
from tidegate.state.cached import CachedStore
from tidegate.state.formats import time_of, with_time
from tidegate.state.keys import Bound, after_prefix
from tidegate.state.store_time import StoreTime

K = TypeVar("K")
V = TypeVar("V")


class KeyValueStore(Generic[K, V]):
    """One value per key, sorted by the keys' bytes; for numbers and text that is their natural order."""

    def __init__(
        self, name: str, rows: CachedStore, key: Serde[K], value: Serde[V], store_time: StoreTime
    ) -> None:
        self.name = name
        self._rows = rows
        self._key = key
        self._value = value
        self._store_time = store_time
        self._encode_key, self._encode, self._decode = key.encode, value.encode, value.decode
        self._get, self._put = rows.get, rows.put

    @property
    def rows(self) -> CachedStore:
        """The bytes below, for aggregates and tables."""
        return self._rows

    def get(self, key: K) -> V | None:
        """Return the key's value, or None."""
        data = self._get(self._encode_key(key))
        return None if data is None else self._decode(data)

    def get_many(self, keys: Sequence[K]) -> list[V | None]:
        """Return the values of many keys at once, in their order."""
        found = self._rows.get_many([self._key.encode(key) for key in keys])
        return [None if data is None else self._value.decode(data) for data in found]

    def put(self, key: K, value: V | None) -> None:
        """Set the key's value; None deletes the row."""
        data = None if value is None else self._encode(value)
        self._put(self._encode_key(key), data, self._store_time.timestamp)

    def put_many(self, rows: Mapping[K, V | None]) -> None:
        """Set many values at once."""
        for key, value in rows.items():
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        """Delete the row and return its value, or None."""
        data = self._key.encode(key)
        found = self._rows.get(data)
        if found is None:
            return None
        self._rows.put(data, None, self._store_time.timestamp)
        return self._value.decode(found)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Yield all rows. Read all rows before the store is written again."""
        return self._scan(None, None, reverse=reverse)

    def range(
        self, start: K | None = None, stop: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """Rows from `start` to below `stop`; None is open."""
        lower = None if start is None else (self._key.encode(start), b"")
        upper = None if stop is None else (self._key.encode(stop), b"")
        return self._scan(lower, upper, reverse=reverse)

    def prefix(self, prefix: K, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Rows whose key starts with `prefix`: for text and bytes."""
        return self._scan(*prefix_bounds(self.name, self._key, prefix), reverse=reverse)

    def _scan(self, lower: Bound | None, upper: Bound | None, *, reverse: bool) -> Iterator[tuple[K, V]]:
        for key, value in self._rows.scan(lower, upper, reverse=reverse):
            yield self._key.decode(key), self._value.decode(value)


def prefix_bounds(store: str, serde: Serde[K], prefix: K) -> tuple[Bound, Bound | None]:
    """Return the bounds of all keys that start with a prefix."""
    if not isinstance(prefix, str | bytes):
        raise StateError(
            "no-prefix",
            f"keys of store {store!r} are not text or bytes, so they have no prefix",
            "use range() instead",
        )
    data = serde.encode(prefix)
    after = after_prefix(data)
    return (data, b""), None if after is None else (after, b"")


class Stamped(NamedTuple, Generic[V]):
    """A value and the time that belongs to it."""

    value: V
    timestamp: int


class TimestampedStore(Generic[K, V]):
    """One value with its time per key. In the changelog the time is that of the record."""

    def __init__(
        self, name: str, rows: CachedStore, key: Serde[K], value: Serde[V], store_time: StoreTime
    ) -> None:
        self.name = name
        self._rows = rows
        self._key = key
        self._value = value
        self._store_time = store_time

    @property
    def rows(self) -> CachedStore:
        """The bytes below, for aggregates and tables."""
        return self._rows

    def get(self, key: K) -> Stamped[V] | None:
        data = self._rows.get(self._key.encode(key))
        return None if data is None else self._stamped(data)

    def put(self, key: K, value: V | None, timestamp: int | None = None) -> None:
        """Set the value and its time (default: that of the current record); None deletes the row."""
        at = self._store_time.timestamp if timestamp is None else timestamp
        data = None if value is None else with_time(self._value.encode(value), at)
        self._rows.put(self._key.encode(key), data, at)

    def delete(self, key: K) -> Stamped[V] | None:
        found = self.get(key)
        if found is not None:
            self.put(key, None)
        return found

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, Stamped[V]]]:
        return self._scan(None, None, reverse=reverse)

    def range(
        self, start: K | None = None, stop: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, Stamped[V]]]:
        """Rows from `start` to below `stop`; None is open."""
        lower = None if start is None else (self._key.encode(start), b"")
        upper = None if stop is None else (self._key.encode(stop), b"")
        return self._scan(lower, upper, reverse=reverse)

    def prefix(self, prefix: K, *, reverse: bool = False) -> Iterator[tuple[K, Stamped[V]]]:
        """Rows whose key starts with `prefix`: for text and bytes."""
        return self._scan(*prefix_bounds(self.name, self._key, prefix), reverse=reverse)

    def _stamped(self, data: bytes) -> Stamped[V]:
        return Stamped(self._value.decode(data[8:]), time_of(data))

    def _scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool
    ) -> Iterator[tuple[K, Stamped[V]]]:
        for key, data in self._rows.scan(lower, upper, reverse=reverse):
            yield self._key.decode(key), self._stamped(data)
