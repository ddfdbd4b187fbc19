"""Convert defaults of a type to defaults of an Avro schema."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import msgspec

_EMPTY: dict[Any, Any] = {list: [], set: [], frozenset: [], tuple: [], dict: {}}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def made_default(factory: Any) -> Any:
    """Return the default of a factory that always returns an equal value, as far as that is known."""
    if factory in _EMPTY:
        return _EMPTY[factory]
    made_of_fields = isinstance(factory, msgspec.StructMeta) or hasattr(factory, "__dataclass_fields__")
    return factory() if made_of_fields else msgspec.NODEFAULT


def plain_default(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """Return a default in the JSON form that Avro uses."""
    if isinstance(value, dict):
        return {str(name): plain_default(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_default(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("latin-1")
    if isinstance(value, datetime):
        since = value - (_EPOCH if value.tzinfo else _EPOCH.replace(tzinfo=None))
        return since // datetime.resolution
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    if isinstance(value, enum.Enum):
        return plain_default(value.value)
    if isinstance(value, UUID):
        return str(value)
    plain = msgspec.to_builtins(value, builtin_types=(bytes, bytearray, datetime, date, time, UUID))
    return plain_default(plain) if isinstance(plain, dict) else plain
