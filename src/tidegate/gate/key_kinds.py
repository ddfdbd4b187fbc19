"""As what a key is read that a person names at a gate, and as what values of held events are shown.

A wrong type would pause a key that no event has."""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.text.render import ValueKind
from tidegate.topology.manifest import GateEntry

_KINDS = {kind.value: kind for kind in ValueKind}
_TEXT = {ValueKind.STR, ValueKind.BYTES}


def key_kind(entry: GateEntry, asked: ValueKind | None) -> ValueKind | None:
    """The kind that was asked for, or that of the gate's keys; None where that is no plain type.

    ConfigError `other-key-type` where no key of the gate can be of the kind. Bytes are always possible.
    """
    own = _KINDS.get(entry.key)
    if asked is None:
        return own
    if own is None or asked in (own, ValueKind.BYTES) or {own, asked} <= _TEXT:
        return asked
    raise ConfigError(
        "other-key-type",
        f"the keys of this gate are {own.value}, not {asked.value}",
        f"leave the type out, or name {own.value}",
    )


def value_kind(entry: GateEntry) -> ValueKind | None:
    """The kind of the values that the gate holds; None where that is no plain type and no JSON."""
    return ValueKind.JSON if entry.value.startswith("json") else _KINDS.get(entry.value)
