"""Compile a subtopology into functions that call each other, record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.gate.task_gates import TaskGates
from tidegate.runtime.operators import tables
from tidegate.runtime.operators.context import Handler, OperatorHost, StepContext
from tidegate.runtime.operators.replaced import Replaced
from tidegate.runtime.operators.step import Getter, R
from tidegate.runtime.task.operator_table import OPERATORS
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.node import Node


class TaskChain:
    """The compiled subtopology of one task. `inputs` are the handlers of the nodes that read topics."""

    def __init__(
        self, topology: Topology, subtopology: Subtopology, host: OperatorHost, gates: TaskGates
    ) -> None:
        self.topology = topology
        self._gates = gates
        self.host = host
        self._handlers: dict[tuple[int, int], Handler] = {}
        self._steps: list[tuple[Any, StepContext]] = []
        self._replaced: dict[str, Replaced] = {}
        self._self_joins: dict[int, Callable[[int], Handler]] = {}
        read = (topology.nodes[node] for node in subtopology.inputs)
        self.inputs = {
            node.id: make(self, node) for node in read if (make := OPERATORS[node.kind].source) is not None
        }

    def init(self) -> None:
        """Call `init` of the steps that are classes."""
        for step, context in self._steps:
            if hasattr(step, "init"):
                step.init(context)

    def close(self) -> None:
        """Call `close` of the steps that are classes."""
        for step, context in self._steps:
            context.close()
            if hasattr(step, "close"):
                step.close()

    def add_step(self, step: Any, context: StepContext) -> None:
        self._steps.append((step, context))

    def forward(self, node: Node) -> Handler:
        """Return a handler that passes a node's results to all its children, in the order of the topology."""
        children = [self.handler(child, node.id) for child in self.topology.children(node.id)]
        if len(children) == 1:
            return children[0]

        def forward(record: R) -> None:
            for child in children:
                child(record)

        return forward

    def handler(self, node: Node, parent: int) -> Handler:
        """Return the handler of a node for records from one of its parents."""
        handler = self._handlers.get((node.id, parent))
        if handler is None:
            handler = self._handlers[node.id, parent] = self._compile(node, parent)
        return handler

    def getter(self, node: Node, *, before: bool = False) -> Getter:
        return tables.getter_of(self, node, before=before)

    def replaced(self, store: str) -> Replaced | None:
        return self._replaced.get(store)

    def watched(self, store: str) -> Replaced:
        return self._replaced.setdefault(store, Replaced())

    def gate(self, node: Node) -> Handler:
        return self._gates.handler(node)

    def self_join(self, node: Node, make: Callable[[], Callable[[int], Handler]]) -> Callable[[int], Handler]:
        if node.id not in self._self_joins:
            self._self_joins[node.id] = make()
        return self._self_joins[node.id]

    def _compile(self, node: Node, parent: int) -> Handler:
        operator = OPERATORS[node.kind]
        if operator.join is not None:
            return operator.join(self, node, parent)
        assert operator.step is not None, node.label  # noqa: S101 - the dsl puts nothing else behind a node
        return operator.step(self, node)
