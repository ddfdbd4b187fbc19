"""The value of a row that keeps its time: aggregates and tables write it, others read the plain value."""

from __future__ import annotations

from typing import Any

from tidegate.serde.protocol import Serde, T
from tidegate.state.formats import with_time
from tidegate.state.store_time import StoreTime


class TimedValue(Serde[T]):
    """The stored form of a timestamped row, read and written without its time: the time of the record in
    work is written."""

    def __init__(self, value: Serde[T], moment: StoreTime) -> None:
        self.name = value.name
        self._value = value
        self._moment = moment

    def encode(self, value: T) -> bytes:
        return with_time(self._value.encode(value), self._moment.timestamp)

    def decode(self, data: bytes) -> T:
        return self._value.decode(data[8:])

    def schema(self) -> dict[str, Any]:
        return self._value.schema()
