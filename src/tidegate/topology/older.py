"""A manifest that an earlier version wrote of the same app, brought to what this version writes of it.

What a gate keeps for itself may get more fields: rows without them can be read. Nobody changed their app by
that, so it is no difference that an app could be refused for.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import NodeKind


def brought_up_to_date(topology: Topology, known: Manifest, made: Manifest) -> Manifest:
    """The known manifest, with what earlier versions did not write taken from the one that was just made: the
    kind of a gate's keys and values, and fields that the rows of a gate's own stores got behind those they
    had. Where its steps are written, and their functions, are those of the newest start."""
    gates = {
        name: replace(gate, key=gate.key or made.gates[name].key, value=made.gates[name].value)
        if name in made.gates
        else gate
        for name, gate in known.gates.items()
    }
    nodes = (node for node in topology.nodes.values() if node.kind is NodeKind.GATE)
    own = {store.name for node in nodes if node.name in known.gates for store in node.stores}
    stores = {
        name: replace(store, value=made.stores[name].value)
        if name in own and name in made.stores and _continues(made.stores[name].value, store.value)
        else store
        for name, store in known.stores.items()
    }
    return replace(known, gates=gates, stores=stores, steps=made.steps)


def _continues(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether all that was added are fields at the end."""
    before, after = _fields(old), _fields(new)
    return 0 < len(before) <= len(after) and after[: len(before)] == before


def _fields(schema: dict[str, Any]) -> list[Any]:
    """Of a struct that is written as an array."""
    found: dict[str, Any] = schema.get("type", {})
    title = found.get("$ref", "").rpartition("/")[2]
    fields: list[Any] = found.get("$defs", {}).get(title, {}).get("prefixItems", [])
    return fields
