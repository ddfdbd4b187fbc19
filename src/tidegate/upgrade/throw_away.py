"""The topology of a recalculation: that of the app, under another id and without its gates.

What a gate has admitted is a source, so its decisions are not made again: the gate, its commands and its
audit are left out, and so are stateless steps that lead to nothing else. A gate that the live app does not
have yet has nothing to hold: everything passes, through an internal topic of the recalculation. The requests
topic of a model that does not exist yet is an empty topic of the recalculation.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace

from tidegate.log import names
from tidegate.topology.graph import Component, Subtopology, Topology
from tidegate.topology.node import COMMANDS, KEPT, Node, NodeKind

OF_GATES = (NodeKind.GATE, *COMMANDS)
STATELESS = (
    NodeKind.SOURCE,
    NodeKind.MAP,
    NodeKind.MAP_RECORDS,
    NodeKind.FLAT_MAP,
    NodeKind.FILTER,
    NodeKind.SELECT_KEY,
    NodeKind.PEEK,
    NodeKind.MERGE,
    NodeKind.BRANCH,
    NodeKind.MAP_BATCHES,
    NodeKind.REPARTITION,
    NodeKind.FRAME,
    NodeKind.ADMITTED,
    NodeKind.TABLE_MAP,
    NodeKind.TABLE_FILTER,
    NodeKind.TABLE_GROUP,
)


def throw_away(
    topology: Topology,
    app: str,
    gates: Collection[str],
    absent: Collection[str] = (),
    components: Collection[str] | None = None,
) -> Topology:
    """Return the topology of a recalculation under the id `app`. `gates` are those of the live app, `absent`
    the topics of requests that do not exist, `components` those that are recalculated: by default all."""
    chosen = {
        number
        for sub in topology.subtopologies()
        if components is None or sub.component in components
        for number in sub.nodes
    }
    nodes = {
        node.id: _changed(topology.nodes, node, app, gates, absent)
        for node in topology.nodes.values()
        if node.id in chosen
        and node.kind not in OF_GATES
        and not (node.kind is NodeKind.SINK and "gate" in node.options)
    }
    while unused := _unused(nodes):
        nodes = {number: node for number, node in nodes.items() if number not in unused}
    left = (_kept(component, nodes) for component in topology.components)
    return replace(
        topology,
        app=app,
        nodes=nodes,
        components=tuple(component for component in left if component.subtopologies),
    )


def _changed(
    nodes: Mapping[int, Node], node: Node, app: str, gates: Collection[str], absent: Collection[str]
) -> Node:
    if node.kind is NodeKind.ADMITTED:
        [gate] = (nodes[parent] for parent in node.parents)
        if gate.name in gates:
            return replace(node, parents=())
        options = {name: option for name, option in node.options.items() if name != "admitted"}
        options[KEPT] = True
        return replace(node, kind=NodeKind.REPARTITION, parents=gate.parents[:1], options=options)
    if node.kind is NodeKind.MODEL_REQUESTS and node.topic is not None and node.topic.name in absent:
        topic = copy.copy(node.topic)
        object.__setattr__(topic, "name", names.model(app, str(node.options["model"]), "requests"))
        return replace(node, topic=topic)
    return node


def _unused(nodes: Mapping[int, Node]) -> set[int]:
    """Return the stateless nodes that no other node reads from."""
    read = {parent for node in nodes.values() for parent in node.parents}
    return {node.id for node in nodes.values() if node.kind in STATELESS and node.id not in read}


def _kept(component: Component, nodes: Mapping[int, Node]) -> Component:
    subtopologies = (
        Subtopology(
            sub.component,
            sub.number,
            tuple(node for node in sub.nodes if node in nodes),
            tuple(node for node in sub.inputs if node in nodes),
        )
        for sub in component.subtopologies
    )
    return Component(component.id, tuple(sub for sub in subtopologies if sub.inputs))
