"""The digest of a component: whether it is still the same.

It covers what its steps are, how they are connected, what they read and write, the user's code and settings.
It does not depend on the order of statements, with one exception: if a record goes to several steps and what
they do meets again, in a store, a topic or a step, then their order decides about the result.

Options of a gate that only limit what it holds are left out, and so are names of changelogs and internal
topics, partition counts of the user's topics, and source lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidegate.topology.entries import NodeEntry, StoreEntry
from tidegate.topology.node import INTERNAL, NodeKind

CHARACTERS = 16
UNCOUNTED = frozenset(
    {
        "max_held",
        "on_full",
        "drain_chunk",
        "topics",
        "state_schema",
        "diff_schema",
        "partitions",
    }
)
"""Options that do not influence results, or that are covered elsewhere: the other topics of a gate have steps
of their own, the schemas of models are those of their types, and the partition count of an internal topic is
the one that it has, whether the user wrote it down or not."""

OWN_ROWS = (NodeKind.GATE, NodeKind.MODEL)
"""Kinds whose stores hold rows of tidegate: a new version of it may add fields to them."""


def component_digest(
    nodes: Sequence[NodeEntry],
    members: Iterable[int],
    stores: Mapping[str, StoreEntry],
    internal_partitions: Mapping[str, int],
    settings: Mapping[str, Any],
    *,
    code: bool,
) -> str:
    """Return the digest of the component with these steps, with or without the user's code."""
    inside = sorted(members)
    known: dict[int, str] = {}
    for number in inside:  # parents come first: a step refers to earlier ones
        node = nodes[number]
        own = {store: [] if node.kind in OWN_ROWS else _store(stores[store]) for store in sorted(node.stores)}
        found = _node(node, own, internal_partitions.get(node.name), code=code)
        known[number] = _digest([found, [known[parent] for parent in node.parents]])
    orders = sorted(_orders(nodes, inside, known))
    return _digest([sorted(known.values()), orders, dict(settings)])


def _node(node: NodeEntry, stores: dict[str, Any], partitions: int | None, *, code: bool) -> list[Any]:
    options = {name: value for name, value in node.options.items() if name not in UNCOUNTED}
    found: list[Any] = [
        node.kind,
        node.name,
        node.topic,
        node.on_error,
        options,
        node.key,
        node.value,
        stores,
    ]
    if node.kind in INTERNAL:
        found.append(partitions)
    if code:
        found.append(node.code)
    return found


def _store(store: StoreEntry) -> list[Any]:
    return [store.kind, store.key, store.value, store.changelog is not None, store.role, store.options]


def _orders(nodes: Sequence[NodeEntry], inside: list[int], known: Mapping[int, str]) -> Iterable[list[str]]:
    """Yield the steps after one step, in their order, if what they do meets again."""
    children: dict[int, list[int]] = {}
    for number in inside:
        for parent in nodes[number].parents:
            children.setdefault(parent, []).append(number)
    effects = _effects(nodes, inside, children)
    for parent, found in children.items():
        after = list(dict.fromkeys(found))
        reached = {one: _reached(nodes, one, effects) for one in after}
        meeting = [
            one for one in after if any(one != other and reached[one] & reached[other] for other in after)
        ]
        if meeting:
            yield [known[parent], *(known[one] for one in meeting)]


def _effects(
    nodes: Sequence[NodeEntry], inside: list[int], children: Mapping[int, list[int]]
) -> dict[int, frozenset[str]]:
    """Return what a record can reach from each step within its task: steps, stores and topics."""
    found: dict[int, frozenset[str]] = {}
    for number in reversed(inside):
        node = nodes[number]
        own = {f"step {number}", *(f"store {store}" for store in node.stores)}
        if node.topic:
            own.add(f"topic {node.topic}")
        found[number] = frozenset(own).union(
            *(_reached(nodes, child, found) for child in children.get(number, ()))
        )
    return found


def _reached(nodes: Sequence[NodeEntry], child: int, effects: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """Return what a record reaches through a child: behind an internal topic it is another task's record."""
    return frozenset([f"step {child}"]) if nodes[child].kind in INTERNAL else effects[child]


def _digest(value: Any) -> str:
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:CHARACTERS]
