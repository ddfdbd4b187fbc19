"""Convert a manifest that an earlier version of tidegate wrote to the form of this version.

A new version may add fields to the rows of a gate's internal stores: rows without them can still be read. The
user did not change the app, so this must not refuse it as changed.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tidegate.topology.digest import OWN_ROWS
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import FORMAT, Manifest, NodeEntry
from tidegate.topology.node import SINKS, SOURCES


def brought_up_to_date(topology: Topology, known: Manifest, made: Manifest) -> Manifest:
    """Return the known manifest, completed from `made` with what earlier versions did not write: the serdes
    of a gate's keys and values, and fields that were appended to the rows of a gate's own stores. The schemas
    of models are those of the newest start."""
    gates = {
        name: replace(gate, key=gate.key or made.gates[name].key, value=made.gates[name].value)
        if name in made.gates
        else gate
        for name, gate in known.gates.items()
    }
    own = own_stores(topology, known)
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
    return replace(known, gates=gates, models=models, stores=stores)


def own_stores(topology: Topology, known: Manifest) -> set[str]:
    """Return the stores whose rows are tidegate's own, those of gates and models, as far as both have
    them."""
    nodes = (node for node in topology.nodes.values() if node.kind in OWN_ROWS)
    return {store.name for node in nodes for store in node.stores if store.name in known.stores}


HEAD = {"format": FORMAT, "algorithm": 0}


def from_format_1(data: bytes) -> Manifest:
    """Convert a manifest of the first format, which had the labels of steps instead of their entries. Its
    components have no digests: they are compared by their steps, stores and topics, without the code."""
    raw: dict[str, Any] = msgspec.json.decode(data)
    found, steps = raw.pop("components"), raw.pop("steps", {})
    nodes: list[NodeEntry] = []
    components = {}
    for id, subs in found.items():
        entries = []
        for number, labels in enumerate(subs):
            known = steps.get(id, [])[number : number + 1]
            first = len(nodes)
            nodes += [_node(label, known[0][at] if known else {}) for at, label in enumerate(labels)]
            entries.append({"number": number, "nodes": list(range(first, len(nodes)))})
        components[id] = {"generation": raw["generation"], "subtopologies": entries}
    return msgspec.convert({**raw, "components": components, "nodes": nodes, **HEAD}, Manifest)


def _node(label: str, step: dict[str, Any]) -> NodeEntry:
    kind, _, quoted = label.partition(' "')
    name = quoted.removesuffix('"')
    is_topic = kind in (*SOURCES, *SINKS)
    return NodeEntry(
        kind=kind,
        name="" if is_topic else name,
        topic=name if is_topic else "",
        location=step.get("location", ""),
        stores=step.get("stores", []),
    )


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
