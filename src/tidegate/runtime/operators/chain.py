"""The nodes of a subtopology as functions that call each other, record by record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.gate.task_gates import TaskGates
from tidegate.runtime.operators import sinks
from tidegate.runtime.operators import stateful as stateful_steps
from tidegate.runtime.operators import stateless as stateless_steps
from tidegate.runtime.operators import tables as table_steps
from tidegate.runtime.operators.context import Handler, Host, StepContext
from tidegate.runtime.operators.replaced import Replaced
from tidegate.runtime.operators.self_join import shared_stores
from tidegate.runtime.operators.step import Getter, R
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.node import COMMANDS, INTERNAL, Node, NodeKind

Maker = Callable[["TaskChain", Node], Handler]

MAKERS: Mapping[NodeKind, Maker] = {
    NodeKind.MAP: stateless_steps.map_values,
    NodeKind.MAP_RECORDS: stateless_steps.map_records,
    NodeKind.FLAT_MAP: stateless_steps.flat_map,
    NodeKind.FILTER: stateless_steps.filter_values,
    NodeKind.SELECT_KEY: stateless_steps.select_key,
    NodeKind.PEEK: stateless_steps.peek,
    NodeKind.MERGE: lambda chain, node: chain.forward(node),
    NodeKind.BRANCH: stateless_steps.branch,
    NodeKind.MAP_BATCHES: stateless_steps.map_batches,
    NodeKind.AGGREGATE: stateful_steps.aggregate,
    NodeKind.PROCESS: stateful_steps.process,
    NodeKind.TABLE_MAP: table_steps.table_map,
    NodeKind.TABLE_FILTER: table_steps.table_filter,
    NodeKind.TABLE_AGGREGATE: table_steps.table_aggregate,
    NodeKind.SINK: sinks.sink,
    NodeKind.TABLE_SINK: sinks.table_sink,
}


class TaskChain:
    """The compiled subtopology of one task. `inputs` takes records by the node that reads them."""

    def __init__(self, topology: Topology, subtopology: Subtopology, host: Host, gates: TaskGates) -> None:
        self.topology = topology
        self._gates = gates
        self.host = host
        self._handlers: dict[tuple[int, int], Handler] = {}
        self._steps: list[tuple[Any, StepContext]] = []
        self._replaced: dict[str, Replaced] = {}
        self._self_joins: dict[int, Callable[[int], Handler]] = {}
        read = (topology.nodes[node] for node in subtopology.inputs)
        self.inputs = {node.id: self._input(node) for node in read if node.kind not in COMMANDS}

    def init(self) -> None:
        """Tell the steps that are classes that they begin."""
        for step, context in self._steps:
            if hasattr(step, "init"):
                step.init(context)

    def close(self) -> None:
        """Tell them that they end."""
        for step, context in self._steps:
            context.close()
            if hasattr(step, "close"):
                step.close()

    def add_step(self, step: Any, context: StepContext) -> None:
        self._steps.append((step, context))

    def forward(self, node: Node) -> Handler:
        """What a node does with its results: hand them to all its children, in the order of the topology."""
        children = [self.handler(child, node.id) for child in self.topology.children(node.id)]
        if len(children) == 1:
            return children[0]

        def forward(record: R) -> None:
            for child in children:
                child(record)

        return forward

    def handler(self, node: Node, parent: int) -> Handler:
        """What happens to a record that comes to a node from one of its parents."""
        handler = self._handlers.get((node.id, parent))
        if handler is None:
            handler = self._handlers[node.id, parent] = self._made(node, parent)
        return handler

    def getter(self, node: Node, *, before: bool = False) -> Getter:
        return table_steps.getter_of(self, node, before=before)

    def replaced(self, store: str) -> Replaced | None:
        return self._replaced.get(store)

    def watched(self, store: str) -> Replaced:
        return self._replaced.setdefault(store, Replaced())

    def _input(self, node: Node) -> Handler:
        return table_steps.table(self, node) if node.kind is NodeKind.TABLE else self.forward(node)

    def _made(self, node: Node, parent: int) -> Handler:
        if node.kind in INTERNAL:
            return sinks.internal_sink(self, node)
        if node.kind is NodeKind.GATE:
            return self._gates.handler(node)
        if node.kind is NodeKind.JOIN:
            return stateful_steps.join(self, node, parent)
        if node.kind is NodeKind.TABLE_JOIN:
            return self._table_join(node, parent)
        return MAKERS[node.kind](self, node)

    def _table_join(self, node: Node, parent: int) -> Handler:
        shared = shared_stores(self.topology.nodes, node)
        if not shared:
            return table_steps.table_join(self, node, parent)
        if node.id not in self._self_joins:
            self._self_joins[node.id] = table_steps.table_self_join(self, node, sorted(shared))
        return self._self_joins[node.id](parent)
