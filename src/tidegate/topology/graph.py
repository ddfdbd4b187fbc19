"""The immutable graph, divided into subtopologies and components.

A subtopology is a set of nodes connected without an internal topic: it runs as one stream task per partition.
A component is a set of nodes connected by streams, stores or internal topics: it is the unit of upgrade.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from tidegate.topology.node import INTERNAL, SOURCES, Node, NodeKind


@dataclass(frozen=True, slots=True)
class Subtopology:
    """The nodes that one stream task per partition runs. `inputs` are the nodes that it reads from: sources,
    tables over topics, and internal topics that another subtopology writes."""

    component: str
    number: int
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """Connected subtopologies; each comes after those that it reads from."""

    id: str
    subtopologies: tuple[Subtopology, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """A checked graph."""

    app: str
    nodes: Mapping[int, Node]
    components: tuple[Component, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    module: str = ""
    """The module that declares the app: its package counts as the user's code even if it is installed."""

    def children(self, node: int) -> list[Node]:
        """Return the nodes that read from this one, in the order of their declaration."""
        return [other for other in self.nodes.values() if node in other.parents]

    def subtopologies(self) -> list[Subtopology]:
        return [subtopology for component in self.components for subtopology in component.subtopologies]

    def stages(self) -> list[tuple[Subtopology, Node]]:
        """Return the subtopologies that Spark runs as DataFrame stages, each with the node that reads its
        result."""
        home = {node: sub for sub in self.subtopologies() for node in sub.nodes}
        frames = (node for node in self.nodes.values() if node.kind is NodeKind.FRAME)
        return [(home[node.parents[0]], node) for node in frames]


def feeds_gates_only(topology: Topology, node: Node) -> bool:
    """Whether only gates read a source, so that its records need not be decoded. After an internal topic the
    time and position of a record are those of its origin, which must be looked up."""
    if node.kind in INTERNAL or (node.topic is not None and node.topic.timestamp is not None):
        return False
    children = topology.children(node.id)
    return bool(children) and all(
        child.kind is NodeKind.GATE or (child.kind is NodeKind.MERGE and feeds_gates_only(topology, child))
        for child in children
    )


def build_graph(
    app: str, nodes: Mapping[int, Node], settings: Mapping[str, object], module: str = ""
) -> Topology:
    """Divide checked nodes into components and subtopologies."""
    components: list[Component] = []
    for members in _connected(nodes, _all_edges(nodes)):
        inner = {node: nodes[node] for node in members}
        named = unused(_component_id(inner), {component.id for component in components})
        parts = _connected(inner, _direct_edges(inner))
        ordered = _in_order(inner, parts)
        components.append(
            Component(
                named,
                tuple(
                    Subtopology(named, number, tuple(sorted(part)), _inputs(inner, part))
                    for number, part in enumerate(ordered)
                ),
            )
        )
    return Topology(app, dict(nodes), tuple(components), dict(settings), module)


def unused(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number after it if it is taken."""
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def _all_edges(nodes: Mapping[int, Node]) -> Iterable[tuple[int, int]]:
    for node in nodes.values():
        yield from ((parent, node.id) for parent in node.parents)
    yield from _store_edges(nodes)


def _direct_edges(nodes: Mapping[int, Node]) -> Iterable[tuple[int, int]]:
    """Yield the edges inside subtopologies. An internal node belongs to the subtopology that reads it; its
    parents write to it from theirs."""
    for node in nodes.values():
        if node.kind not in INTERNAL:
            yield from ((parent, node.id) for parent in node.parents)
    yield from _store_edges(nodes)


def _store_edges(nodes: Mapping[int, Node]) -> Iterable[tuple[int, int]]:
    """Yield edges between nodes that share a store: they run in one task."""
    users: dict[str, int] = {}
    for node in nodes.values():
        for store in node.stores:
            first = users.setdefault(store.name, node.id)
            if first != node.id:
                yield first, node.id


def _connected(nodes: Mapping[int, Node], edges: Iterable[tuple[int, int]]) -> list[set[int]]:
    """Return the sets of connected nodes, sorted by their first member."""
    leader = {node: node for node in nodes}

    def find(node: int) -> int:
        while leader[node] != node:
            node = leader[node]
        return node

    for left, right in edges:
        low, high = sorted((find(left), find(right)))
        leader[high] = low
    groups: dict[int, set[int]] = {}
    for node in nodes:
        groups.setdefault(find(node), set()).add(node)
    return [groups[first] for first in sorted(groups)]


def _in_order(nodes: Mapping[int, Node], parts: list[set[int]]) -> list[set[int]]:
    """Sort parts so that those that write an internal topic come before those that read it."""
    home = {node: number for number, part in enumerate(parts) for node in part}
    needs: dict[int, set[int]] = {number: set() for number in range(len(parts))}
    for node in nodes.values():
        if node.kind in INTERNAL:
            needs[home[node.id]] |= {home[parent] for parent in node.parents} - {home[node.id]}
    ordered: list[int] = []
    while len(ordered) < len(parts):
        ready = [number for number in needs if number not in ordered and needs[number] <= set(ordered)]
        ordered += ready[:1] or [min(set(needs) - set(ordered))]
    return [parts[number] for number in ordered]


def _inputs(nodes: Mapping[int, Node], part: set[int]) -> tuple[int, ...]:
    kinds = (*SOURCES, *INTERNAL)
    return tuple(sorted(node for node in part if nodes[node].kind in kinds and _reads(nodes[node])))


def _reads(node: Node) -> bool:
    return node.topic is not None or node.kind in INTERNAL


def _component_id(nodes: Mapping[int, Node]) -> str:
    """Return the first name that the user chose for a store or step in it, else a topic's name."""
    durable = [
        name
        for node in nodes.values()
        for name in [*(store.name for store in node.stores), node.name]
        if name
    ]
    topics = [node.topic.name for node in nodes.values() if node.topic]
    return next(iter([*durable, *topics]), "component")
