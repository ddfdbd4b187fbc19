"""Parse text that a person typed into the bytes of a value."""

from __future__ import annotations

import re

import msgspec

from tidegate.serde.protocol import unencodable
from tidegate.text.render import PLAIN_KINDS, ValueKind

_WHOLE_KINDS = (ValueKind.INT, ValueKind.JAVA_LONG, ValueKind.JAVA_INT)
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(nan|inf|infinity|[0-9.]+(e[+-]?[0-9]+)?)", re.IGNORECASE)


def from_text(text: bytes, kind: ValueKind | None) -> bytes:
    """Convert text to the bytes of a kind; without a kind return it unchanged if it is UTF-8."""
    if kind is ValueKind.BYTES:
        return text
    try:
        typed = text.decode()
    except UnicodeDecodeError:
        raise unencodable("str", "it is not UTF-8", "use --type bytes to send bytes as they are") from None
    if kind is None or kind is ValueKind.STR:
        return text
    if kind is ValueKind.JSON:
        return checked_json(text)
    return _plain(typed.strip(), kind)


def checked_json(text: bytes) -> bytes:
    """Return the text if it is JSON."""
    try:
        msgspec.json.format(text).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unencodable("json", str(error), "send JSON, or use another --type") from None
    return text


def _plain(typed: str, kind: ValueKind) -> bytes:
    value: int | float | bool
    if kind is ValueKind.BOOL and typed in ("true", "false"):
        value = typed == "true"
    elif kind in _WHOLE_KINDS and _WHOLE.fullmatch(typed):
        value = int(typed)
    elif kind is ValueKind.FLOAT and _NUMBER.fullmatch(typed) and typed.count(".") <= 1 and typed != ".":
        value = float(typed)
    else:
        raise unencodable(
            kind, f"{typed[:40]!r} is not a {kind}", "send another value, or use another --type"
        )
    return PLAIN_KINDS[kind].encode(value)
