"""The state of a gate's key as responses show it."""

from __future__ import annotations

from typing import Any

from tidegate.gate.query import KeyState
from tidegate.server.parameters import quoted, shown_key
from tidegate.text.render import ValueKind


def key_as_json(gate: str, one: KeyState, kind: ValueKind | None) -> dict[str, Any]:
    """Return the state of a key, with the path of its own response."""
    waiting = one.buffered
    return {
        "key": shown_key(one.key, kind),
        "path": f"/gates/{gate}/keys/{quoted(one.key)}",
        "held": one.held,
        "status": None if one.status is None else one.status.shown(),
        "waiting": 0 if waiting is None else waiting.count,
        "bytes": 0 if waiting is None else waiting.bytes,
        "oldest": None if waiting is None else waiting.since,
    }
