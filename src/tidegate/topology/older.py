"""Convert a manifest that an earlier version of tidegate wrote to the form of this version.

A new version may add fields to the rows of a gate's internal stores: rows without them can still be read. The
user did not change the app, so this must not refuse it as changed.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import NodeKind


def brought_up_to_date(topology: Topology, known: Manifest, made: Manifest) -> Manifest:
    """Return the known manifest, completed from `made` with what earlier versions did not write: the serdes
    of a gate's keys and values, and fields that were appended to the rows of a gate's own stores. Source
    lines, function digests and the schemas of models are those of the newest start."""
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
    models = {
        name: replace(model, state=made.models[name].state, diff=made.models[name].diff)
        if name in made.models
        else model
        for name, model in known.models.items()
    }
    return replace(known, gates=gates, models=models, stores=stores, steps=made.steps)


def _continues(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether the new schema only appends fields to the old one."""
    before, after = _fields(old), _fields(new)
    return 0 < len(before) <= len(after) and after[: len(before)] == before


def _fields(schema: dict[str, Any]) -> list[Any]:
    """Return the fields of a struct that is written as an array."""
    found: dict[str, Any] = schema.get("type", {})
    title = found.get("$ref", "").rpartition("/")[2]
    fields: list[Any] = found.get("$defs", {}).get(title, {}).get("prefixItems", [])
    return fields
