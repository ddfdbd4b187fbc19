"""The canonical bytes of a JSON value, by RFC 8785, and their digest: the same in every language.

What a browser would not read as it was written is refused: integers beyond 2^53, NaN and infinities, text
with half a surrogate pair, keys that are not text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

LARGEST_INTEGER = 2**53 - 1
LARGEST_PLAIN_EXPONENT = 21
"""JavaScript writes numbers of more digits with an exponent."""
SMALLEST_PLAIN_EXPONENT = -6
SMALLEST_PLAIN, LARGEST_PLAIN = 1e-4, 1e15
"""Numbers between these are written alike everywhere, unless they are whole."""
_ASTRAL = "\ud800"
"""Keys with characters from here on may have another order in UTF-16."""
_text = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="deterministic").encode


class _Unusual(Exception):  # noqa: N818 - no failure: the value is encoded part by part
    """The value has a part that msgspec writes in another way than RFC 8785."""


def canonical(value: Json) -> bytes:
    """Encode a value. Raises ValueError with the path of what cannot be encoded."""
    try:
        return _sorted(_usual(value))
    except (_Unusual, UnicodeEncodeError):
        return part_by_part(value)


def part_by_part(value: Json) -> bytes:
    """As `canonical`, for any value; it takes several times as long."""
    return b"".join(_parts(value, ()))


def _usual(value: Any) -> Any:
    """Return the value as msgspec must get it to write it by RFC 8785: whole numbers as integers."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is float:
        if value.is_integer() and -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            return int(value)
        if SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN:
            return value
    elif kind is int:
        if -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            return value
    elif kind is list:
        return [one if type(one) is str else _usual(one) for one in value]
    elif kind is dict and all(type(key) is str and (key.isascii() or max(key) < _ASTRAL) for key in value):
        return {key: one if type(one) is str else _usual(one) for key, one in value.items()}
    raise _Unusual


def digest(value: Json) -> str:
    """Return `sha256:` and the hash of the canonical bytes."""
    return f"sha256:{hashlib.sha256(canonical(value)).hexdigest()}"


def _parts(value: Json, path: tuple[str | int, ...]) -> Iterator[bytes]:
    kind = type(value)
    if kind is str:
        yield _string(value, path)  # type: ignore[arg-type]
    elif value is None or kind is bool:
        yield _text(value)
    elif kind is int:
        yield _integer(value, path)  # type: ignore[arg-type]
    elif kind is float:
        yield _number(value, path)  # type: ignore[arg-type]
    elif isinstance(value, dict):
        yield from _object(value, path)
    elif isinstance(value, list):
        yield b"["
        for number, item in enumerate(value):
            yield b"," if number else b""
            yield from _parts(item, (*path, number))
        yield b"]"
    else:
        raise _refused(path, f"a {kind.__name__} is no JSON value")


def _object(value: dict[str, Json], path: tuple[str | int, ...]) -> Iterator[bytes]:
    yield b"{"
    for number, key in enumerate(sorted(value, key=_utf_16)):
        yield b"," if number else b""
        yield _string(key, path)
        yield b":"
        yield from _parts(value[key], (*path, key))
    yield b"}"


def _utf_16(key: str) -> bytes:
    """Order of keys: JavaScript compares their UTF-16 units."""
    if type(key) is not str:
        raise ValueError(f"the key {key!r} is not text")
    return key.encode("utf-16-be", "surrogatepass")


def _string(value: str, path: tuple[str | int, ...]) -> bytes:
    try:
        return _text(value)
    except UnicodeEncodeError:
        raise _refused(path, "text with half a surrogate pair") from None


def _integer(value: int, path: tuple[str | int, ...]) -> bytes:
    if abs(value) > LARGEST_INTEGER:
        raise _refused(path, f"{value} is beyond 2^53, where JavaScript rounds; write it as text")
    return b"%d" % value


def _number(value: float, path: tuple[str | int, ...]) -> bytes:
    """As ECMAScript writes numbers: the shortest digits that are read back as the same number."""
    if not math.isfinite(value):
        raise _refused(path, f"{value} is no JSON number")
    if value == 0:
        return b"0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    return (("-" if value < 0 else "") + _placed(digits, point)).encode()


def _placed(digits: str, point: int) -> str:
    """The number 0.DIGITS * 10^point."""
    count = len(digits)
    if count <= point <= LARGEST_PLAIN_EXPONENT:
        return digits + "0" * (point - count)
    if 0 < point <= LARGEST_PLAIN_EXPONENT:
        return f"{digits[:point]}.{digits[point:]}"
    if SMALLEST_PLAIN_EXPONENT < point <= 0:
        return f"0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _refused(path: tuple[str | int, ...], why: str) -> ValueError:
    where = "".join(f"[{part!r}]" for part in path) or "the value"
    return ValueError(f"{where}: {why}")
