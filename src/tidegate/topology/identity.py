"""The identity of components and subtopologies: by what they own, never by the order of statements.

A component owns the names of its steps, stores, internal topics, gates and models, and its sinks. At a later
start each component of the app is the one of the manifest that owns most of the same names, and gets its id;
its subtopologies get the numbers of those that own the same names. So tasks, positions and folders of a
component stay when statements are swapped, or when something is added or removed elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from tidegate.topology.graph import Component, Subtopology, Topology, unused
from tidegate.topology.manifest import Manifest, NodeEntry
from tidegate.topology.node import SINKS, SOURCES, Node

Known = TypeVar("Known", bound=Hashable)


class Names(NamedTuple):
    """What a set of nodes owns, and what it reads. Two components may write one sink, and may not share any
    other name."""

    own: frozenset[str]
    sinks: frozenset[str]
    sources: frozenset[str]

    def shared_with(self, other: Names) -> tuple[int, int, int]:
        """Return how many names are the same, the most telling ones first."""
        own, sinks, sources = (len(mine & theirs) for mine, theirs in zip(self, other, strict=True))
        return own, sinks, sources


def identified(topology: Topology, known: Manifest) -> Topology:
    """Return the topology with the component ids and subtopology numbers of the manifest. New ones get ids
    and numbers that the manifest does not have."""
    before = {
        id: _of_component(_names_of_entries(known.nodes[node] for node in one.nodes()))
        for id, one in known.components.items()
    }
    found = matched([_of_component(_names(topology, _nodes_of(one))) for one in topology.components], before)
    taken = set(known.components)
    components = []
    for component, same in zip(topology.components, found, strict=True):
        id = same or unused(component.id, taken)
        taken.add(id)
        components.append(_renamed(topology, component, id, known))
    return replace(topology, components=tuple(components))


def matched(new: Sequence[Names], known: Mapping[Known, Names]) -> list[Known | None]:
    """Return for each of the new ones the known one that shares most names with it, each at most once; None
    if there is none."""
    pairs = [
        (names.shared_with(before), -index, number)
        for number, names in enumerate(new)
        for index, before in enumerate(known.values())
    ]
    ids = list(known)
    found: list[Known | None] = [None] * len(new)
    used: set[Known] = set()
    for shared, index, number in sorted(pairs, reverse=True):
        id = ids[-index]
        if any(shared) and found[number] is None and id not in used:
            found[number] = id
            used.add(id)
    return found


def _renamed(topology: Topology, component: Component, id: str, known: Manifest) -> Component:
    entry = known.components.get(id)
    subs = {} if entry is None else {sub.number: sub for sub in entry.subtopologies}
    before = {
        number: _names_of_entries(known.nodes[node] for node in sub.nodes) for number, sub in subs.items()
    }
    found = matched([_names(topology, sub.nodes) for sub in component.subtopologies], before)
    free = max(subs, default=-1) + 1
    numbered: list[Subtopology] = []
    for sub, same in zip(component.subtopologies, found, strict=True):
        number = free if same is None else same
        free += same is None
        numbered.append(replace(sub, component=id, number=number))
    return Component(id, tuple(numbered))


def _of_component(names: Names) -> Names:
    """Return the names that identify a component: what it reads only if it owns nothing."""
    return names._replace(sources=frozenset()) if names.own or names.sinks else names


def _nodes_of(component: Component) -> list[int]:
    return [node for sub in component.subtopologies for node in sub.nodes]


def _names(topology: Topology, numbers: Iterable[int]) -> Names:
    nodes = [topology.nodes[number] for number in numbers]
    return Names(
        frozenset(name for node in nodes for name in _own(node)),
        frozenset(node.topic.name for node in nodes if node.topic and node.kind in SINKS),
        frozenset(node.topic.name for node in nodes if node.topic and node.kind in SOURCES),
    )


def _own(node: Node) -> list[str]:
    return [*([f"step {node.name}"] if node.name else []), *(f"store {store.name}" for store in node.stores)]


def _names_of_entries(entries: Iterable[NodeEntry]) -> Names:
    nodes = list(entries)
    own = [f"step {node.name}" for node in nodes if node.name]
    stores = [f"store {store}" for node in nodes for store in node.stores]
    return Names(
        frozenset([*own, *stores]),
        frozenset(node.topic for node in nodes if node.topic and node.kind in SINKS),
        frozenset(node.topic for node in nodes if node.topic and node.kind in SOURCES),
    )
