"""Check whether a value is immutable.

A hash does not show it: ordinary classes and dataclasses with `eq=False` are hashable by identity, although
their attributes can change.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from msgspec import Struct

PLAIN_TYPES = frozenset(
    {int, str, bytes, bool, float, type(None), Decimal, datetime, date, time, timedelta, UUID}
)


def is_immutable(value: Any) -> bool:
    """Return whether a value is immutable: plain values and enums; and tuples, frozensets, frozen Structs and
    frozen dataclasses of those."""
    kind = type(value)
    if kind in PLAIN_TYPES or isinstance(value, Enum):
        return True
    if kind is frozenset or (isinstance(value, tuple) and not hasattr(value, "__dict__")):
        return all(map(is_immutable, value))
    if isinstance(value, Struct):
        names = kind.__struct_fields__ if kind.__struct_config__.frozen else None
    else:
        names = _fields_of_frozen(kind)
    return names is not None and all(is_immutable(getattr(value, name)) for name in names)


def _fields_of_frozen(kind: type) -> tuple[str, ...] | None:
    """Return the fields if the class itself is a frozen dataclass: a subclass of one can get attributes of
    its own."""
    params = vars(kind).get("__dataclass_params__")
    return tuple(one.name for one in fields(kind)) if params is not None and params.frozen else None
