"""Values stored with their time: aggregates and tables write the time, other code reads the plain value."""

from __future__ import annotations

from typing import Any

from tidegate.serde.protocol import Serde, T
from tidegate.state.formats import with_time
from tidegate.state.store_time import StoreTime


class TimedValue(Serde[T]):
    """Serde for the values of timestamped rows: it writes the current record's timestamp before the value,
    and skips it when reading."""

    def __init__(self, value: Serde[T], store_time: StoreTime) -> None:
        self.name = value.name
        self._value = value
        self._store_time = store_time

    def encode(self, value: T) -> bytes:
        return with_time(self._value.encode(value), self._store_time.timestamp)

    def decode(self, data: bytes) -> T:
        return self._value.decode(data[8:])

    def schema(self) -> dict[str, Any]:
        return self._value.schema()
