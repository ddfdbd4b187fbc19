"""The change of a table's row, as steps of tables pass it on."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from tidegate.errors import SerdeError
from tidegate.serde import Serde

_HEAD = struct.Struct(">BI")
_OLD, _NEW = 1, 2


class Change(NamedTuple):
    """A row's value before and after a change; None if there is no row."""

    old: Any
    new: Any


def encode_change(serde: Serde[Any], change: Change) -> bytes:
    """Encode a change as the value of a record in an internal topic."""
    old = b"" if change.old is None else serde.encode(change.old)
    new = b"" if change.new is None else serde.encode(change.new)
    flags = (_OLD if change.old is not None else 0) | (_NEW if change.new is not None else 0)
    return _HEAD.pack(flags, len(old)) + old + new


def decode_change(serde: Serde[Any], data: bytes) -> Change:
    """Decode a change from such a value."""
    if len(data) < _HEAD.size:
        raise SerdeError("undecodable", "a change is truncated", "only tidegate may write to internal topics")
    flags, length = _HEAD.unpack_from(data)
    new_at = _HEAD.size + length
    return Change(
        serde.decode(data[_HEAD.size : new_at]) if flags & _OLD else None,
        serde.decode(data[new_at:]) if flags & _NEW else None,
    )
