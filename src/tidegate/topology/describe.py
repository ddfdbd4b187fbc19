"""Describe a topology as text, as JSON and as a Mermaid flowchart."""

from __future__ import annotations

from typing import Any

from tidegate.log import names
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import internal_topic
from tidegate.topology.node import INTERNAL, Node


def as_dict(topology: Topology) -> dict[str, Any]:
    """Return the whole structure as plain values."""
    return {
        "app": topology.app,
        "components": [
            {
                "id": component.id,
                "subtopologies": [
                    {
                        "number": sub.number,
                        "reads": [_topic(topology, topology.nodes[node]) for node in sub.inputs],
                        "nodes": [_node(topology, topology.nodes[node]) for node in sub.nodes],
                    }
                    for sub in component.subtopologies
                ],
            }
            for component in topology.components
        ],
    }


def as_text(topology: Topology) -> str:
    """Return one line per step, indented below its subtopology."""
    lines = [f"app {topology.app}"]
    for component in topology.components:
        lines.append(f"  component {component.id}")
        for sub in component.subtopologies:
            lines.append(f"    subtopology {sub.number}")
            lines += [f"      {_line(topology, topology.nodes[node])}" for node in sub.nodes]
    return "\n".join(lines)


def as_mermaid(topology: Topology) -> str:
    """Return a flowchart: steps as boxes, topics as cylinders, one frame per subtopology."""
    lines = ["flowchart LR"]
    topics: dict[str, str] = {}
    edges: list[str] = []
    for sub in topology.subtopologies():
        lines.append(f'  subgraph s{len(lines)}["{_escaped(f"{sub.component} / {sub.number}")}"]')
        for node in (topology.nodes[number] for number in sub.nodes):
            lines.append(f'    n{node.id}["{_escaped(node.label)}"]')
            edges += [f"  n{parent} --> n{node.id}" for parent in node.parents if node.kind not in INTERNAL]
            if node.topic is not None or node.kind in INTERNAL:
                name = _topic(topology, node)
                topic = topics.setdefault(name, f"t{len(topics)}")
                if node.kind in INTERNAL:
                    edges += [f"  n{parent} --> {topic}" for parent in node.parents]
                reads = not node.parents or node.kind in INTERNAL
                edges.append(f"  {topic} --> n{node.id}" if reads else f"  n{node.id} --> {topic}")
        lines.append("  end")
    lines += [f'  {key}[("{_escaped(name)}")]' for name, key in topics.items()]
    return "\n".join([*lines, *edges])


def _node(topology: Topology, node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": node.id,
        "kind": node.kind.value,
        "parents": list(node.parents),
        "location": node.location,
    }
    if node.name:
        found["name"] = node.name
    if node.topic is not None or node.kind in INTERNAL:
        found["topic"] = _topic(topology, node)
    if node.stores:
        found["stores"] = [
            {
                "name": store.name,
                "kind": store.kind,
                "changelog": names.changelog(topology.app, store.name) if store.changelog else None,
            }
            for store in node.stores
        ]
    return found


def _line(topology: Topology, node: Node) -> str:
    parts = [f"{node.id}: {node.label}"]
    if node.parents:
        parts.append("<- " + ", ".join(str(parent) for parent in node.parents))
    if node.kind in INTERNAL:
        parts.append(f"through {_topic(topology, node)}")
    stores = [f"{store.name}{'' if store.changelog else ' (no changelog)'}" for store in node.stores]
    if stores:
        parts.append(f"store {', '.join(stores)}")
    return "  ".join([*parts, f"({node.location})"])


def _topic(topology: Topology, node: Node) -> str:
    if node.topic is not None:
        return node.topic.name
    return internal_topic(topology.app, node)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
