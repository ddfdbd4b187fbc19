"""Held events of a gate, as lines for people and as objects for programs."""

from __future__ import annotations

from typing import Any

from tidegate.errors import SerdeError
from tidegate.gate.formats import Held
from tidegate.gate.key_kinds import value_kind
from tidegate.log.names import is_internal_header
from tidegate.text.render import ValueKind, as_json, shown, when
from tidegate.topology.manifest import GateEntry

SHORT = 80


class HeldView:
    """Decodes values as the named kind, or else as the gate's app declared them. A value that is not of the
    named kind raises SerdeError; one that is not of the declared kind is shown as what it looks like."""

    def __init__(self, entry: GateEntry, named: ValueKind | None, *, full: bool) -> None:
        self._named = named
        self._declared = value_kind(entry)
        self._longest = None if full else SHORT

    def as_dict(self, number: int, event: Held) -> dict[str, Any]:
        """The event as the server returns it."""
        headers = [pair for pair in event.headers if not is_internal_header(pair[0])]
        return {
            "sequence": number,
            "from": event.origin,
            "timestamp": event.timestamp,
            "value": as_json(event.value, self._kind(event)),
            "headers": [[name, as_json(value)] for name, value in headers],
            "bytes": event.size,
        }

    def row(self, number: int, event: Held) -> tuple[str, ...]:
        """The event as cells of a table."""
        value = event.value
        text = "(tombstone)" if value is None else shown(value, self._kind(event), self._longest)
        return f"{number}", event.origin, when(event.timestamp), f"{event.size:,}", text

    def _kind(self, event: Held) -> ValueKind | None:
        if self._named is not None or self._declared is None or event.value is None:
            return self._named
        try:
            as_json(event.value, self._declared)
        except SerdeError:
            return None
        return self._declared
