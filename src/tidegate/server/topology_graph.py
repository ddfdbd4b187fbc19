"""The topology of an app as a graph to be drawn: nodes, edges, topics, stores, gates and stream tasks. All of
it is in the manifest; here it is joined."""

from __future__ import annotations

from typing import Any

from tidegate.log.positions import TaskId
from tidegate.server.topic_roles import topic_roles
from tidegate.topology.entries import ComponentEntry, NodeEntry, SubtopologyEntry
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import COMMANDS, INTERNAL, SINKS, SOURCES


def topology_graph(manifest: Manifest) -> dict[str, Any]:
    """Return the graph of one generation of an app, without its settings, which may be confidential."""
    homes = {
        node: (component, sub.number)
        for component, entry in manifest.components.items()
        for sub in entry.subtopologies
        for node in sub.nodes
    }
    return {
        "app": manifest.app,
        "generation": manifest.generation,
        "nodes": [
            _node(manifest, number, node, *homes.get(number, ("", 0)))
            for number, node in enumerate(manifest.nodes)
        ],
        "edges": [
            {
                "from": parent,
                "to": number,
                "topic": manifest.internal.get(node.name) if node.kind in INTERNAL else None,
                "command": manifest.nodes[parent].kind in COMMANDS,
            }
            for number, node in enumerate(manifest.nodes)
            for parent in node.parents
        ],
        "topics": _topics(manifest),
        "stores": [
            {
                "store": name,
                "kind": store.kind,
                "role": store.role,
                "changelog": store.changelog,
                "key": _format(store.key),
                "value": _format(store.value),
                "component": store.component,
                "nodes": [number for number, node in enumerate(manifest.nodes) if name in node.stores],
            }
            for name, store in manifest.stores.items()
        ],
        "gates": [_gate(manifest, name) for name in manifest.gates],
        "models": [
            {
                "model": name,
                "node": _number_of(manifest, "model", name),
                "changelog": model.changelog,
                "requests": model.requests,
                "events": model.events,
                "partitions": model.partitions,
            }
            for name, model in manifest.models.items()
        ],
        "subtopologies": [
            _subtopology(manifest, component, entry, sub)
            for component, entry in manifest.components.items()
            for sub in entry.subtopologies
        ],
    }


def _node(manifest: Manifest, number: int, node: NodeEntry, component: str, sub: int) -> dict[str, Any]:
    gate = node.name if node.kind == "gate" else node.options.get("gate")
    return {
        "id": number,
        "kind": node.kind,
        "label": node.label,
        "name": node.name,
        "topic": _topic(manifest, node),
        "location": node.location,
        "component": component,
        "subtopology": sub,
        "stores": node.stores,
        "on_error": node.on_error,
        "key": _format(node.key),
        "value": _format(node.value),
        "gate": gate if isinstance(gate, str) else None,
    }


def _topic(manifest: Manifest, node: NodeEntry) -> str | None:
    """The topic that a node reads or writes; None if it does neither."""
    return node.topic or (manifest.internal.get(node.name) if node.kind in INTERNAL else None) or None


def _topics(manifest: Manifest) -> list[dict[str, Any]]:
    """The topics that nodes read or write, in the order of the nodes."""
    roles = topic_roles([manifest])
    internal = {
        manifest.internal[name]: count
        for name, count in manifest.internal_partitions.items()
        if name in manifest.internal
    }
    counts = {**internal, **manifest.sinks, **manifest.sources}
    found: dict[str, dict[str, Any]] = {}
    for number, node in enumerate(manifest.nodes):
        topic = _topic(manifest, node)
        if topic is None:
            continue
        own = [one.role for one in roles.get(topic, [])]
        entry = found.setdefault(
            topic,
            {
                "topic": topic,
                "role": own[0] if own else "other",
                "roles": own,
                "partitions": counts.get(topic),
                "reads": [],
                "writes": [],
            },
        )
        if node.kind in SOURCES or node.kind in INTERNAL:
            entry["reads"].append(number)
        if node.kind in SINKS:
            entry["writes"].append(number)
        elif node.kind in INTERNAL:
            entry["writes"] += node.parents
    return list(found.values())


def _gate(manifest: Manifest, name: str) -> dict[str, Any]:
    entry = manifest.gates[name]
    number = _number_of(manifest, "gate", name)
    parents = [] if number is None else manifest.nodes[number].parents
    sources = [one for one in parents if manifest.nodes[one].kind not in COMMANDS]
    return {
        "gate": name,
        "node": number,
        "source": {"nodes": sources, "topics": gate_sources(manifest, name)},
        "status": entry.status,
        "trigger": entry.trigger,
        "admitted": entry.admitted,
        "audit": entry.audit,
        "partitions": entry.partitions,
        "key": entry.key,
        "value": entry.value,
    }


def gate_sources(manifest: Manifest, name: str) -> list[str]:
    """Return the topics whose records reach a gate without passing another topic."""
    number = _number_of(manifest, "gate", name)
    waiting = [] if number is None else list(manifest.nodes[number].parents)
    seen: set[int] = set()
    topics: dict[str, None] = {}
    while waiting:
        at = waiting.pop(0)
        node = manifest.nodes[at]
        if at in seen or node.kind in COMMANDS:
            continue
        seen.add(at)
        topic = _topic(manifest, node)
        if topic is not None:
            topics[topic] = None
        else:
            waiting += node.parents
    return list(topics)


def _subtopology(
    manifest: Manifest, component: str, entry: ComponentEntry, sub: SubtopologyEntry
) -> dict[str, Any]:
    partitions = _partitions(manifest, sub)
    return {
        "component": component,
        "generation": entry.generation,
        "number": sub.number,
        "nodes": sub.nodes,
        "partitions": partitions,
        "tasks": [str(TaskId(component, entry.generation, sub.number, n)) for n in range(partitions)],
    }


def _partitions(manifest: Manifest, sub: SubtopologyEntry) -> int:
    """The partition count that all inputs of a subtopology share, so its number of stream tasks."""
    for node in (manifest.nodes[number] for number in sub.nodes):
        if node.kind in SOURCES and node.topic in manifest.sources:
            return manifest.sources[node.topic]
        if node.kind in INTERNAL and node.name in manifest.internal_partitions:
            return manifest.internal_partitions[node.name]
    return 0


def _number_of(manifest: Manifest, kind: str, name: str) -> int | None:
    """The number of the node of this kind and name."""
    for number, node in enumerate(manifest.nodes):
        if (node.kind, node.name) == (kind, name):
            return number
    return None


def _format(schema: dict[str, Any]) -> str:
    """The format of a serde: `json`, `msgpack`, `int`."""
    return str(schema.get("format", ""))
