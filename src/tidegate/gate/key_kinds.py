"""The types of a gate's keys and values, for keys that users name and held events that they see.

A key of a wrong type would pause a key that no event has.
"""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.text.render import ValueKind
from tidegate.topology.manifest import GateEntry

_KINDS = {kind.value: kind for kind in ValueKind}
_TEXT = {ValueKind.STR, ValueKind.BYTES}


def key_kind(entry: GateEntry, requested: ValueKind | None) -> ValueKind | None:
    """Return the requested kind, or that of the gate's keys; None if their type is not a plain one.

    Raises ConfigError `other-key-type` if no key of the gate can be of the requested kind. Bytes are always
    possible.
    """
    own = _KINDS.get(entry.key)
    if requested is None:
        return own
    if own is None or requested in (own, ValueKind.BYTES) or {own, requested} <= _TEXT:
        return requested
    raise ConfigError(
        "other-key-type",
        f"the keys of this gate are {own.value}, not {requested.value}",
        f"leave the type out, or use {own.value}",
    )


def value_kind(entry: GateEntry) -> ValueKind | None:
    """Return the kind of the gate's values; None if their type is neither plain nor JSON."""
    return ValueKind.JSON if entry.value.startswith("json") else _KINDS.get(entry.value)
