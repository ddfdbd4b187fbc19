"""A record, as user code gets it."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """A key and a value with their timestamp and position. Immutable; `with_...` returns a new record.

    A record without a key has key None at run time, whatever K is: only gates, joins and stores need a key,
    and their error names the record that has none.

    One is created for each record of each topic, hence `gc=False`: the garbage collector does not track
    records. So a value must not refer to the record that holds it.
    """

    key: K
    value: V
    timestamp: int
    """Event time in milliseconds since 1970."""
    headers: Headers = ()
    """The record's own headers in their order; a name may come twice."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    """Where it was read: -1, and an empty topic, for a record that user code created."""

    def header(self, name: str) -> bytes | None:
        """Return the last header of this name, as in Kafka; None if there is none, or if it has no value."""
        for found, value in reversed(self.headers):
            if found == name:
                return value
        return None

    def with_key(self, key: K2) -> Record[K2, V]:
        """Return the same record with another key."""
        return Record(key, self.value, self.timestamp, self.headers, self.topic, self.partition, self.offset)

    def with_value(self, value: V2) -> Record[K, V2]:
        """Return the same record with another value."""
        return Record(self.key, value, self.timestamp, self.headers, self.topic, self.partition, self.offset)
