"""The manifest: a record of one generation of an app. Names of internal topics are looked up here.

It is written to the control topic at the first start, and compared at every later one. Stores and topics of
the first generation have plain names; those created later have the generation in their name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tidegate.errors import ConfigError
from tidegate.fingerprint import ALGORITHM, python_version
from tidegate.log import names
from tidegate.topology.code import Code
from tidegate.topology.digest import component_digest
from tidegate.topology.entries import (
    ComponentEntry,
    GateEntry,
    ModelEntry,
    NodeEntry,
    StoreEntry,
    SubtopologyEntry,
)
from tidegate.topology.graph import Topology
from tidegate.topology.node import INTERNAL, SINKS, SOURCES, Node, NodeKind
from tidegate.topology.node_entries import node_entries, store_options

FORMAT = 2

__all__ = [
    "ComponentEntry",
    "GateEntry",
    "Manifest",
    "ModelEntry",
    "NodeEntry",
    "StoreEntry",
    "SubtopologyEntry",
    "internal_topic",
    "make_manifest",
    "partition_counts",
    "plain",
]


class Manifest(msgspec.Struct, frozen=True):
    """One generation of an app."""

    app: str
    generation: int
    sources: dict[str, int]
    """Partition count of each source topic."""
    sinks: dict[str, int]
    internal: dict[str, str]
    """Topic of each repartition, by the name that the user chose."""
    internal_partitions: dict[str, int]
    stores: dict[str, StoreEntry]
    components: dict[str, ComponentEntry]
    nodes: list[NodeEntry]
    """The steps; source lines are those of the newest start."""
    settings: dict[str, Any] = {}
    gates: dict[str, GateEntry] = {}
    models: dict[str, ModelEntry] = {}
    starts: dict[str, list[int]] = {}
    """The start offset of each partition of each source when the app read it for the first time."""
    algorithm: int = 0
    """The version of the algorithm of fingerprints; 0 if there are none."""
    python: str = ""
    format: int = FORMAT

    def purged(self) -> list[str]:
        """Return the internal topics whose records are deleted once they were read. What a gate admitted is
        kept: replays begin there."""
        kept = {gate.admitted for gate in self.gates.values()}
        return [topic for topic in self.internal.values() if topic not in kept]

    def generation_of(self, component: str) -> int:
        """Return the generation of a component's tasks."""
        return self.components[component].generation


def make_manifest(
    topology: Topology,
    partitions: Mapping[str, int],
    generation: int = 1,
    existing: Mapping[str, int] | None = None,
    *,
    starts: Mapping[str, Sequence[int]] | None = None,
    code: Code | None = None,
) -> Manifest:
    """Create the manifest of a topology over topics with these partition counts, as if everything in it were
    new in this generation: see `generations` for what it keeps of an earlier one. `existing` is as in
    `partition_counts`; `starts` are the start offsets of the sources. Without `code` there are no
    fingerprints."""
    nodes = topology.nodes
    counts = partition_counts(topology, partitions, existing)
    home = {node: sub for sub in topology.subtopologies() for node in sub.nodes}
    entries = node_entries(topology, {node: number for number, node in enumerate(nodes)}, code)
    internal_partitions = {
        node.name: counts[home[node.id].component, home[node.id].number]
        for node in nodes.values()
        if node.kind in INTERNAL
    }
    stores = {
        store.name: StoreEntry(
            store.kind,
            store.key.schema(),
            store.value.schema(),
            names.changelog(topology.app, store.name, generation) if store.changelog else None,
            store.role,
            home[node.id].component,
            generation,
            store_options(store),
        )
        for node in nodes.values()
        for store in node.stores
    }
    made = Manifest(
        app=topology.app,
        generation=generation,
        sources={
            node.topic.name: partitions[node.topic.name]
            for node in nodes.values()
            if node.topic and node.kind in SOURCES
        },
        sinks={
            node.topic.name: partitions[node.topic.name]
            for node in nodes.values()
            if node.topic and node.kind in SINKS
        },
        internal={
            node.name: internal_topic(topology.app, node, generation)
            for node in nodes.values()
            if node.kind in INTERNAL
        },
        internal_partitions=internal_partitions,
        stores=stores,
        components={},
        nodes=entries,
        settings=dict(topology.settings),
        gates={
            node.name: GateEntry(
                **node.options["topics"],
                partitions=counts[home[node.id].component, home[node.id].number],
                key="" if node.key is None else node.key.name,
                value="" if node.value is None else node.value.name,
            )
            for node in nodes.values()
            if node.kind is NodeKind.GATE
        },
        models={
            node.name: ModelEntry(
                changelog=stores[node.name].changelog or "",
                **node.options["topics"],
                partitions=counts[home[node.id].component, home[node.id].number],
                appendable=node.options["appendable"],
                max_state=node.options["max_state"],
                state=node.options["state_schema"],
                diff=node.options["diff_schema"],
            )
            for node in nodes.values()
            if node.kind is NodeKind.MODEL
        },
        starts={topic: list(found) for topic, found in (starts or {}).items()},
        algorithm=0 if code is None else ALGORITHM,
        python=python_version(),
    )
    return plain(replace(made, components=_components(topology, made)))


_manifest = msgspec.json.Decoder(Manifest)


def plain(manifest: Manifest) -> Manifest:
    """Return the manifest as it is when it is read back: JSON has no tuples."""
    return _manifest.decode(msgspec.json.encode(manifest))


def _components(topology: Topology, made: Manifest) -> dict[str, ComponentEntry]:
    numbers = {node: number for number, node in enumerate(topology.nodes)}
    found = {}
    for component in topology.components:
        subs = [
            SubtopologyEntry(sub.number, [numbers[node] for node in sub.nodes])
            for sub in component.subtopologies
        ]
        members = [node for sub in subs for node in sub.nodes]
        structure, digest = (
            component_digest(
                made.nodes, members, made.stores, made.internal_partitions, made.settings, code=code
            )
            for code in (False, True)
        )
        found[component.id] = ComponentEntry(made.generation, subs, structure, digest)
    return found


def internal_topic(app: str, node: Node, born: int = 1) -> str:
    """Return the name of the topic between two subtopologies that is created in a generation."""
    topic: str | None = node.options.get("admitted")
    return names.repartition(app, node.name, born) if topic is None else topic


def partition_counts(
    topology: Topology, partitions: Mapping[str, int], existing: Mapping[str, int] | None = None
) -> dict[tuple[str, int], int]:
    """Return how many stream tasks each subtopology has: the partition count that all its inputs share.

    An internal topic has the count that the user requested, else the one in the manifest (`existing`), since
    keys must not move in it when a source gets more partitions. A new one gets that of the other inputs of
    its subtopology, else the largest of those that write to it. If subtopologies write to each other in a
    cycle, the first one ignores the others. A topic that does not exist yet gets the count of the others."""
    counts: dict[tuple[str, int], int] = {}
    nodes = topology.nodes
    home = {node: (sub.component, sub.number) for sub in topology.subtopologies() for node in sub.nodes}
    for sub in topology.subtopologies():
        fixed: dict[str, int] = {}
        writers: list[int] = []
        for node in (nodes[number] for number in sub.inputs):
            if node.topic is not None:
                if node.topic.name in partitions:
                    fixed[node.label] = partitions[node.topic.name]
            elif node.options.get("partitions"):
                fixed[node.label] = node.options["partitions"]
            elif existing is not None and node.name in existing:
                fixed[node.label] = existing[node.name]
            else:
                writers += [counts[home[parent]] for parent in node.parents if home[parent] in counts]
        if len(set(fixed.values())) > 1:
            listed = ", ".join(f"{label} has {count}" for label, count in fixed.items())
            raise ConfigError(
                "not-co-partitioned",
                f"topics that are joined or merged must have the same partition count: {listed}",
                "use repartition(name, partitions=...) on one of them first",
            )
        counts[sub.component, sub.number] = next(iter(fixed.values()), max(writers, default=1))
    return counts
