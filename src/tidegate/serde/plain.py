"""Serdes of plain values: one short, fixed form each, whose bytes sort like the values.

    bytes      as they are
    str        UTF-8, which sorts by code point as Python does
    int        8 bytes, big endian, sign bit flipped
    float      8 bytes, big endian, sign bit flipped, negative numbers inverted
    bool       1 byte, 0 or 1
    UUID       16 bytes
    datetime   microseconds since 1970 in UTC, written as an int

Stores sort their rows by bytes, so a range of encoded keys is a range of keys. Each value has exactly one
form, and any other bytes are refused: a key with two forms would have two rows and two partitions."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tidegate.serde.protocol import Serde, T, undecodable, unencodable, wrong_type

_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_NAN = 0xFFF8_0000_0000_0000
_MINUS_ZERO = _SIGN - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_pack_float = struct.Struct(">d").pack
_unpack_float = struct.Struct(">d").unpack


class _Plain(Serde[T]):
    """Base class with the schema: the name, and the version of its form."""

    form: str

    def schema(self) -> dict[str, Any]:
        return {"form": self.form, "format": self.name}


class BytesSerde(_Plain[bytes]):
    """Bytes as they are. A bytearray or memoryview is refused: it could change after it was sent."""

    name = "bytes"
    form = "raw"

    def encode(self, value: bytes) -> bytes:
        if not isinstance(value, bytes):
            raise wrong_type("bytes", value)
        return value

    def decode(self, data: bytes) -> bytes:
        return bytes(data)


class StrSerde(_Plain[str]):
    """UTF-8. A lone surrogate has no UTF-8 form and is refused."""

    name = "str"
    form = "utf-8"

    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise wrong_type("str", value)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise unencodable("str", f"{error.reason} (character {error.start})") from None

    def decode(self, data: bytes) -> str:
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise undecodable("str", data, f"{error.reason} (byte {error.start})") from None

    def decode_many(self, data: Sequence[bytes]) -> list[str]:
        try:
            return [str(one, "utf-8") for one in data]
        except UnicodeDecodeError:
            return super().decode_many(data)


class IntSerde(_Plain[int]):
    """A signed 64-bit number. A bool is refused although Python calls it an int."""

    name = "int"
    form = "int64-ordered"

    def encode(self, value: int) -> bytes:
        if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
            raise wrong_type("int", value)
        try:
            return (value + _SIGN).to_bytes(8, "big")
        except OverflowError:
            raise unencodable(
                "int", "it does not fit into 64 bits", "use str, or Json[int]() for larger numbers"
            ) from None

    def decode(self, data: bytes) -> int:
        if len(data) != 8:
            raise undecodable("int", data, "an int has 8")
        return int.from_bytes(data, "big") - _SIGN

    def encode_many(self, values: Sequence[int]) -> list[bytes]:
        if set(map(type, values)) - {int}:
            return super().encode_many(values)
        try:
            return [(value + _SIGN).to_bytes(8, "big") for value in values]
        except OverflowError:
            return super().encode_many(values)

    def decode_many(self, data: Sequence[bytes]) -> list[int]:
        if set(map(len, data)) - {8}:
            return super().decode_many(data)
        return [value - _SIGN for value in struct.unpack(f">{len(data)}Q", b"".join(data))]


class FloatSerde(_Plain[float]):
    """A 64-bit float. -0.0 is written as 0.0, and every NaN as the one that sorts after infinity.

    An int is accepted if it equals a float exactly, as type checkers allow it.
    """

    name = "float"
    form = "float64-ordered"

    def encode(self, value: float) -> bytes:
        if type(value) is not float:
            value = self._as_float(value)
        if value != value:  # noqa: PLR0124 - only NaN differs from itself; half the time of math.isnan
            return _NAN.to_bytes(8, "big")
        bits = int.from_bytes(_pack_float(value + 0.0), "big")
        return (bits ^ _ALL if bits & _SIGN else bits | _SIGN).to_bytes(8, "big")

    def decode(self, data: bytes) -> float:
        if len(data) != 8:
            raise undecodable("float", data, "a float has 8")
        ordered = int.from_bytes(data, "big")
        bits = ordered ^ _SIGN if ordered & _SIGN else ordered ^ _ALL
        value: float = _unpack_float(bits.to_bytes(8, "big"))[0]
        if ordered == _MINUS_ZERO or (math.isnan(value) and ordered != _NAN):
            raise undecodable("float", data, "this form of 0.0 or NaN is never written")
        return value

    def _as_float(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type("float", value)
        try:
            number = float(value)
        except OverflowError:
            raise unencodable("float", "the int is too large for a float") from None
        if number == value or math.isnan(number):
            return number
        raise unencodable("float", "the int is not exactly a float")


class BoolSerde(_Plain[bool]):
    """One byte."""

    name = "bool"
    form = "byte"

    def encode(self, value: bool) -> bytes:
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        raise wrong_type("bool", value)

    def decode(self, data: bytes) -> bool:
        if data == b"\x01":
            return True
        if data == b"\x00":
            return False
        raise undecodable("bool", data, "a bool is one byte, 0 or 1")


class UuidSerde(_Plain[UUID]):
    """The 16 bytes of a UUID."""

    name = "uuid"
    form = "raw"

    def encode(self, value: UUID) -> bytes:
        if not isinstance(value, UUID):
            raise wrong_type("uuid", value)
        return value.bytes

    def decode(self, data: bytes) -> UUID:
        if len(data) != 16:
            raise undecodable("uuid", data, "a UUID has 16")
        return UUID(bytes=bytes(data))


class DatetimeSerde(_Plain[datetime]):
    """A datetime with a time zone. It is read back in UTC, so the zone itself is lost."""

    name = "datetime"
    form = "int64-ordered-utc-micros"

    def encode(self, value: datetime) -> bytes:
        if not isinstance(value, datetime):
            raise wrong_type("datetime", value)
        if value.utcoffset() is None:
            raise unencodable(
                "datetime", "it has no time zone", "make it aware: datetime.now(UTC), or .replace(tzinfo=...)"
            )
        micros = (value - _EPOCH) // _MICROSECOND
        if not _FIRST <= micros <= _LAST:
            raise unencodable("datetime", "in UTC it is outside the years 1 to 9999")
        return (micros + _SIGN).to_bytes(8, "big")

    def decode(self, data: bytes) -> datetime:
        if len(data) != 8:
            raise undecodable("datetime", data, "a datetime has 8")
        micros = int.from_bytes(data, "big") - _SIGN
        if not _FIRST <= micros <= _LAST:
            raise undecodable("datetime", data, "the time is outside the years 1 to 9999")
        return _EPOCH + timedelta(microseconds=micros)


PLAIN: dict[object, Serde[Any]] = {
    bytes: BytesSerde(),
    str: StrSerde(),
    int: IntSerde(),
    float: FloatSerde(),
    bool: BoolSerde(),
    UUID: UuidSerde(),
    datetime: DatetimeSerde(),
}
"""The one serde of each plain type."""
