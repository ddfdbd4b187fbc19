"""Recognise folder metadata of older versions, without a checksum: accepted once, sealed at the next commit.

Sealed metadata with a flipped bit must not be mistaken for it. Sealed metadata has four more bytes after the
JSON, and each of its stores has the fields `window` and `in_memory`, which the old form does not have: one
flipped bit cannot hide both.
"""

from __future__ import annotations

import msgspec

from tidegate.log.positions import Position, TaskId


class _Facts(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    changelog: str | None
    key: str
    value: str


class _Unsealed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The old form. All fields are required, because they were always written."""

    app: str
    task: TaskId
    log: str
    format: int
    topics: dict[str, str]
    offsets: dict[str, int]
    current_at: dict[str, int]
    position: Position | None
    stores: dict[str, _Facts]


_unsealed = msgspec.json.Decoder(_Unsealed)


def is_unsealed(raw: bytes) -> bool:
    """Whether these bytes are exactly the old form."""
    try:
        found = _unsealed.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return bool(found.stores) and msgspec.json.encode(found) == raw
