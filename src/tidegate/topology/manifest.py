"""The manifest: a record of one generation of an app. Names of internal topics are looked up here.

It is written to the control topic at the first start, and compared at every later one. Stores and topics of
the first generation have plain names; those created later have the generation in their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.topology.graph import Topology
from tidegate.topology.node import INTERNAL, SOURCES, Node, NodeKind
from tidegate.topology.source_code import code_of

FORMAT = 1


class StoreEntry(msgspec.Struct, frozen=True):
    """A store: its kind and schemas, and its changelog's topic if it has one."""

    kind: str
    key: dict[str, Any]
    value: dict[str, Any]
    changelog: str | None
    role: str
    component: str
    born: int = 1


class GateEntry(msgspec.Struct, frozen=True):
    """The topics of a gate, and how many partitions all but the audit topic have."""

    status: str
    trigger: str
    admitted: str
    audit: str
    partitions: int
    key: str = ""
    """The name of the serde of its keys; empty for apps that an earlier version started."""
    value: str = ""
    """The name of the serde of its values as of the newest start: for displaying them."""


class ModelEntry(msgspec.Struct, frozen=True):
    """The topics of a model, and what clients may know of it."""

    changelog: str
    requests: str
    events: str
    partitions: int
    appendable: bool
    """Whether diffs may come by HTTP: not if they are derived from another stream."""
    max_state: int
    state: dict[str, Any] = {}
    """The JSON schema of its states as of the newest start."""
    diff: dict[str, Any] = {}
    """The JSON schema of its diffs as of the newest start."""


class StepEntry(msgspec.Struct, frozen=True):
    """The source line of a step, and its functions: to report what changed, never to refuse an app."""

    location: str
    stores: list[str] = []
    code: dict[str, str] = {}
    """A digest of each function of the user by its role, if its source is known; see `source_code`."""


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
    components: dict[str, list[list[str]]]
    """The labels of the nodes of each subtopology, by component."""
    settings: dict[str, Any] = {}
    gates: dict[str, GateEntry] = {}
    models: dict[str, ModelEntry] = {}
    format: int = FORMAT
    steps: dict[str, list[list[StepEntry]]] = {}
    """As in `components`, of the newest start. Apps that an earlier version started have none."""

    def purged(self) -> list[str]:
        """Return the internal topics whose records are deleted once they were read. What a gate admitted is
        kept: replays begin there."""
        kept = {gate.admitted for gate in self.gates.values()}
        return [topic for topic in self.internal.values() if topic not in kept]


def make_manifest(
    topology: Topology,
    partitions: Mapping[str, int],
    generation: int = 1,
    existing: Mapping[str, int] | None = None,
) -> Manifest:
    """Create the manifest of a topology over topics with these partition counts; `existing` as in
    `partition_counts`."""
    nodes = topology.nodes
    counts = partition_counts(topology, partitions, existing)
    internal = {
        node.name: internal_topic(topology.app, node) for node in nodes.values() if node.kind in INTERNAL
    }
    home = {node: sub for sub in topology.subtopologies() for node in sub.nodes}
    stores = {
        store.name: StoreEntry(
            store.kind,
            store.key.schema(),
            store.value.schema(),
            names.changelog(topology.app, store.name) if store.changelog else None,
            store.role,
            home[node.id].component,
        )
        for node in nodes.values()
        for store in node.stores
    }
    return Manifest(
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
            if node.topic and node.kind in (NodeKind.SINK, NodeKind.TABLE_SINK)
        },
        internal=internal,
        internal_partitions={
            node.name: counts[home[node.id].component, home[node.id].number]
            for node in nodes.values()
            if node.kind in INTERNAL
        },
        stores=stores,
        components={
            component.id: [[nodes[node].label for node in sub.nodes] for sub in component.subtopologies]
            for component in topology.components
        },
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
                changelog=names.changelog(topology.app, node.name),
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
        steps={
            component.id: [[_step(nodes[node]) for node in sub.nodes] for sub in component.subtopologies]
            for component in topology.components
        },
    )


def _step(node: Node) -> StepEntry:
    known = ((role, code_of(function)) for role, function in node.functions.items())
    code = {role: found.digest for role, found in known if found is not None}
    return StepEntry(node.location, [store.name for store in node.stores], code)


def internal_topic(app: str, node: Node) -> str:
    """Return the name of the topic between two subtopologies."""
    topic: str | None = node.options.get("admitted")
    return names.repartition(app, node.name) if topic is None else topic


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
