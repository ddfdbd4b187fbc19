"""Render any bytes as readable text.

Records may come from anyone, so their bytes are never written to a terminal as they are: every character that
is not printable (control characters, escape codes, marks that change the direction of text) is escaped.

    text            as it is                       {"a": 1}     as JSON in one short line
    8 bytes         42, 19.5: ints and floats of tidegate, if they can hardly be anything else
    anything else   0x00ff10… (2,048 bytes)
"""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from tidegate.errors import SerdeError
from tidegate.serde.java import JavaInteger, JavaLong
from tidegate.serde.plain import PLAIN
from tidegate.serde.protocol import undecodable

LONGEST_SHOWN = 2000
HEX_BYTES = 16
EXACT_INT = 1 << 53
SHORT_FLOAT = 12

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class ValueKind(StrEnum):
    """The type of keys or values, as a user names it."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    BYTES = "bytes"
    JSON = "json"
    JAVA_LONG = "java-long"
    JAVA_INT = "java-int"


PLAIN_KINDS = {
    ValueKind.STR: PLAIN[str],
    ValueKind.INT: PLAIN[int],
    ValueKind.FLOAT: PLAIN[float],
    ValueKind.BOOL: PLAIN[bool],
    ValueKind.BYTES: PLAIN[bytes],
    ValueKind.JAVA_LONG: JavaLong(),
    ValueKind.JAVA_INT: JavaInteger(),
}


def shown(data: bytes, kind: ValueKind | None = None, longest: int | None = LONGEST_SHOWN) -> str:
    """Render the bytes as one printable line of up to `longest` characters (None: no limit). Raises
    SerdeError if they are not of the given kind."""
    text = _guessed(data) if kind is None else _read_as(data, kind)
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… ({_count(data)})"


def as_json(data: bytes | None, kind: ValueKind | None = None) -> Any:
    """Convert the bytes to a value for JSON, in full; {"base64": ...} if they are not text."""
    if data is None:
        return None
    if kind is None:
        return _guessed_json(data)
    if kind is ValueKind.BYTES:
        return {"base64": base64.b64encode(data).decode()}
    if kind is ValueKind.JSON:
        return msgspec.Raw(_json(data).encode())
    value = PLAIN_KINDS[kind].decode(data)
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
    return value


def when(millis: int) -> str:
    """Render a timestamp in UTC; as a number of milliseconds if no datetime can hold it."""
    try:
        time = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    """Escape everything in the text that a terminal could act on."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def printable_json(text: str) -> str:
    """Escape JSON without line breaks, so that it is still the same JSON."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape_json(character) for character in text)


def _read_as(data: bytes, kind: ValueKind) -> str:
    if kind is ValueKind.BYTES:
        return _hex(data)
    if kind is ValueKind.JSON:
        return _json(data)
    value = PLAIN_KINDS[kind].decode(data)
    if isinstance(value, str):
        return printable(value) or '""'
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _guessed(data: bytes) -> str:
    text = _text(data)
    if text is None:
        number = _number(data)
        return _hex(data) if number is None else repr(number)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _json(data)
        except SerdeError:
            pass
    return printable(text) or '""'


def _guessed_json(data: bytes) -> Any:
    text = _text(data)
    if text is None:
        number = _number(data)
        return as_json(data, ValueKind.BYTES) if number is None else number
    if text.lstrip()[:1] in ("{", "["):
        try:
            return as_json(data, ValueKind.JSON)
        except SerdeError:
            pass
    return text


def _text(data: bytes) -> str | None:
    """Return the bytes as text if they look like text: tabs and line breaks, but few other control
    characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    odd = sum(not character.isprintable() and character not in _ESCAPES for character in text)
    return None if "\0" in text or odd * 4 > len(text) else text


def _number(data: bytes) -> int | float | None:
    """Return the int or float that tidegate's serdes would have written as these 8 bytes, if plausible: an
    int of at most 53 bits, or a float with few digits."""
    if len(data) != 8:
        return None
    whole: int = PLAIN[int].decode(data)
    if abs(whole) < EXACT_INT:
        return whole
    try:
        number: float = PLAIN[float].decode(data)
    except SerdeError:
        return None
    return number if math.isfinite(number) and len(repr(number)) <= SHORT_FLOAT else None


def _json(data: bytes) -> str:
    try:
        return printable_json(msgspec.json.format(data, indent=-1).decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise undecodable("json", data, str(error)) from None


def _hex(data: bytes) -> str:
    more = "…" if len(data) > HEX_BYTES else ""
    return f"0x{data[:HEX_BYTES].hex()}{more} ({_count(data)})"


def _count(data: bytes) -> str:
    return "1 byte" if len(data) == 1 else f"{len(data):,} bytes"


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return _ESCAPES.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
