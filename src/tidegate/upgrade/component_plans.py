"""What happens to each component: what it reads again, what it publishes, and what it carries over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.changes.changes import ComponentChange, Thing
from tidegate.changes.steps import owner_of
from tidegate.gate.formats import GateTotals
from tidegate.topology.graph import Component, Subtopology, Topology
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import COMMANDS, INTERNAL, SINKS, SOURCES, Node, NodeKind
from tidegate.upgrade.order import order_sensitive
from tidegate.upgrade.plan import (
    Action,
    ComponentPlan,
    GatePlan,
    ModelPlan,
    Publishes,
    Reads,
    SubtopologyPlan,
)
from tidegate.upgrade.topics_now import TopicsNow

ACTIONS: Mapping[str, Action] = {"kept": "keep", "changed": "recalculate", "new": "start", "gone": "remove"}


@dataclass(frozen=True, slots=True)
class Sources:
    """What the plans of components are made of."""

    topology: Topology
    known: Manifest | None
    """The running generation; None if the app never ran."""
    made: Manifest
    now: TopicsNow
    totals: Mapping[str, GateTotals]
    """What each gate of the running generation holds."""


def component_plan(sources: Sources, change: ComponentChange) -> ComponentPlan:
    """Return the plan of one component."""
    action = ACTIONS[change.verdict]
    component = next((one for one in sources.topology.components if one.id == change.id), None)
    gates = [
        GatePlan(
            gate.name,
            gate.verdict,
            *((total.held, total.paused) if (total := sources.totals.get(gate.name)) else (0, 0)),
        )
        for gate in change.of(Thing.GATE)
    ]
    models = [ModelPlan(model.name, model.verdict) for model in change.of(Thing.MODEL)]
    if component is None:
        publishes = list(_old_sinks(sources, change))
        return ComponentPlan(change.id, action, change.generation, 0, [], publishes, [], gates, models)
    numbers = [number for sub in component.subtopologies for number in sub.nodes]
    if action == "keep":
        subs = [SubtopologyPlan(sub.number, replay=False) for sub in component.subtopologies]
        return ComponentPlan(
            change.id, action, change.generation, change.generation, subs, [], [], gates, models
        )
    return ComponentPlan(
        change.id,
        action,
        change.generation,
        sources.made.components[change.id].generation,
        [_subtopology(sources, sub, action) for sub in component.subtopologies],
        list(_sinks(sources, numbers)),
        _derived_stores(sources.topology, numbers),
        gates,
        models,
        order_sensitive(sources.topology, numbers) if action == "recalculate" else [],
    )


def _subtopology(sources: Sources, sub: Subtopology, action: Action) -> SubtopologyPlan:
    nodes = [sources.topology.nodes[number] for number in sub.nodes]
    has_gate = any(node.kind is NodeKind.GATE for node in nodes)
    if action == "recalculate" and has_gate and not _calculates(sources.topology, sub):
        return SubtopologyPlan(sub.number, replay=False)
    inputs = [sources.topology.nodes[number] for number in sub.inputs]
    return SubtopologyPlan(sub.number, replay=True, reads=list(_reads(sources, inputs)))


def _calculates(topology: Topology, sub: Subtopology) -> bool:
    """Whether a subtopology with a gate has results besides what the gate admits."""
    outputs = [
        node
        for node in topology.nodes.values()
        if node.kind in INTERNAL and set(node.parents) & set(sub.nodes)
    ]
    return (
        bool(_derived_stores(topology, sub.nodes))
        or any(node.kind is not NodeKind.ADMITTED for node in outputs)
        or any(
            node.kind in SINKS and node.topic is not None and node.topic.policy == "compact"
            for node in (topology.nodes[number] for number in sub.nodes)
        )
    )


def _derived_stores(topology: Topology, numbers: Iterable[int]) -> list[str]:
    stores = (store for number in numbers for store in topology.nodes[number].stores)
    return list(dict.fromkeys(store.name for store in stores if store.role == "derived"))


def _reads(sources: Sources, inputs: Iterable[Node]) -> Iterator[Reads]:
    """Yield the topics that a subtopology reads again. Repartition topics are written again, too."""
    known, now = sources.known, sources.now
    for node in inputs:
        if node.kind in COMMANDS:
            continue
        if node.topic is not None:
            topic = node.topic.name
        elif node.kind is NodeKind.ADMITTED and known is not None and node.name in known.internal:
            topic = known.internal[node.name]
        else:
            continue
        first = known.starts.get(topic) if known is not None else None
        is_read = known is not None and (topic in known.sources or topic in known.internal.values())
        starts = now.starts(topic)
        begin = first or [0] * len(starts)
        begin = [*begin, *starts[len(begin) :]]
        complete = all(start <= least for start, least in zip(starts, begin, strict=False))
        yield Reads(topic, now.records(topic, begin), begin, complete, not is_read)


def _sinks(sources: Sources, numbers: Iterable[int]) -> Iterator[Publishes]:
    known, now = sources.known, sources.now
    nodes = (sources.topology.nodes[number] for number in numbers)
    found: dict[str, Publishes] = {}
    for node in nodes:
        if node.kind not in SINKS or node.topic is None or node.options.keys() & {"gate", "model"}:
            continue
        topic, is_table = node.topic.name, node.topic.policy == "compact"
        is_new = known is None or topic not in known.sinks
        rows = now.records(topic) if is_table else 0
        found[topic] = Publishes(topic, "table" if is_table else "events", rows, is_new)
    yield from found.values()


def _old_sinks(sources: Sources, change: ComponentChange) -> Iterator[Publishes]:
    """Yield the sinks of a component that is gone."""
    for sink in change.of(Thing.SINK):
        info = sources.now.info(sink.name)
        is_table = info is not None and info.compacts
        yield Publishes(
            sink.name,
            "table" if is_table else "events",
            sources.now.records(sink.name) if is_table else 0,
        )


def lost_tables(sources: Sources) -> list[Publishes]:
    """Return the table topics that the running generation writes and the new version does not."""
    if sources.known is None:
        return []
    own = {node.topic for node in sources.known.nodes if node.kind in SINKS and not owner_of(node)}
    infos = (sources.now.info(topic) for topic in sorted(own - sources.made.sinks.keys()))
    return [
        Publishes(info.name, "table", sources.now.records(info.name))
        for info in infos
        if info is not None and info.compacts
    ]


def topic_names(topology: Topology, known: Manifest | None) -> set[str]:
    """Return the topics that a plan looks up."""
    declared = {node.topic.name for node in topology.nodes.values() if node.topic is not None}
    if known is None:
        return declared
    return (
        declared
        | known.sources.keys()
        | known.sinks.keys()
        | {gate.admitted for gate in known.gates.values()}
    )


def is_source(node: Node) -> bool:
    """Whether a step reads a topic of the user."""
    return node.kind in SOURCES and node.topic is not None


def component_of(topology: Topology, name: str) -> Component:
    return next(one for one in topology.components if one.id == name)
