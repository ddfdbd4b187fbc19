"""What a person typed, as the bytes that it stands for."""

from __future__ import annotations

import re

import msgspec

from tidegate.serde.protocol import unencodable
from tidegate.text.render import PLAIN_KINDS, ValueKind

_WHOLE_KINDS = (ValueKind.INT, ValueKind.JAVA_LONG, ValueKind.JAVA_INT)
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(nan|inf|infinity|[0-9.]+(e[+-]?[0-9]+)?)", re.IGNORECASE)


def from_text(text: bytes, kind: ValueKind | None) -> bytes:
    """Text as the bytes of a kind; without one it stays as it is, if it is UTF-8."""
    if kind is ValueKind.BYTES:
        return text
    try:
        said = text.decode()
    except UnicodeDecodeError:
        raise unencodable("str", "it is no UTF-8", "use --type bytes to send bytes as they are") from None
    if kind is None or kind is ValueKind.STR:
        return text
    if kind is ValueKind.JSON:
        return checked_json(text)
    return _plain(said.strip(), kind)


def checked_json(text: bytes) -> bytes:
    """The text itself, if it is JSON."""
    try:
        msgspec.json.format(text).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unencodable("json", str(error), "send JSON, or name another type") from None
    return text


def _plain(said: str, kind: ValueKind) -> bytes:
    value: int | float | bool
    if kind is ValueKind.BOOL and said in ("true", "false"):
        value = said == "true"
    elif kind in _WHOLE_KINDS and _WHOLE.fullmatch(said):
        value = int(said)
    elif kind is ValueKind.FLOAT and _NUMBER.fullmatch(said) and said.count(".") <= 1 and said != ".":
        value = float(said)
    else:
        raise unencodable(kind, f"{said[:40]!r} is none", "send another value, or name its type")
    return PLAIN_KINDS[kind].encode(value)
