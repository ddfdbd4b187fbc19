"""The operators: for each kind of node how it runs, record by record and over whole batches.

To add an operator, add an entry here. `TaskChain` compiles a subtopology with the functions for single
records, `batch_chain` with those for whole batches if each node of a subtopology has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.runtime.batches import batch_steps
from tidegate.runtime.batches.aggregate import aggregate
from tidegate.runtime.batches.batch_steps import BatchMaker
from tidegate.runtime.operators import models, sinks, stateful, stateless, tables
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.step import Chain
from tidegate.topology.node import Node, NodeKind

Maker = Callable[[Chain, Node], Handler]
"""Returns the handler of a node."""
JoinMaker = Callable[[Chain, Node, int], Handler]
"""Returns the handler of a node for records from the parent with this id."""


@dataclass(frozen=True, slots=True)
class Operator:
    """How a kind of node runs. A field is None if the kind does not support it."""

    step: Maker | None = None
    """Handles a record from a parent."""
    join: JoinMaker | None = None
    """The same, for nodes that distinguish their parents."""
    batch: BatchMaker | None = None
    """Handles a whole batch from its only parent. Must have the same results as `step`, to the byte."""
    source: Maker | None = None
    """Handles a record that was read from its topic."""
    reads_batches: bool = False
    """Whether it passes whole batches of its topic to its child."""


def _forward(chain: Chain, node: Node) -> Handler:
    return chain.forward(node)


def _gate(chain: Chain, node: Node) -> Handler:
    return chain.gate(node)


OPERATORS: Mapping[NodeKind, Operator] = {
    # Streams, without state
    NodeKind.SOURCE: Operator(source=_forward, reads_batches=True),
    NodeKind.MAP: Operator(stateless.map_values, batch=batch_steps.map_values),
    NodeKind.MAP_RECORDS: Operator(stateless.map_records),
    NodeKind.FLAT_MAP: Operator(stateless.flat_map, batch=batch_steps.flat_map),
    NodeKind.FILTER: Operator(stateless.filter_values, batch=batch_steps.filter_values),
    NodeKind.SELECT_KEY: Operator(stateless.select_key, batch=batch_steps.select_key),
    NodeKind.PEEK: Operator(stateless.peek),
    NodeKind.MERGE: Operator(_forward),
    NodeKind.BRANCH: Operator(stateless.branch),
    NodeKind.MAP_BATCHES: Operator(stateless.map_batches),
    # Streams, with state
    NodeKind.AGGREGATE: Operator(stateful.aggregate, batch=aggregate),
    NodeKind.JOIN: Operator(join=stateful.join),
    NodeKind.PROCESS: Operator(stateful.process),
    NodeKind.MODEL: Operator(join=models.model),
    NodeKind.MODEL_REQUESTS: Operator(source=_forward),
    # Tables
    NodeKind.TABLE: Operator(source=tables.table),
    NodeKind.TABLE_MAP: Operator(tables.table_map, batch=batch_steps.table_map),
    NodeKind.TABLE_FILTER: Operator(tables.table_filter, batch=batch_steps.table_filter),
    NodeKind.TABLE_JOIN: Operator(join=tables.table_join),
    NodeKind.TABLE_AGGREGATE: Operator(tables.table_aggregate),
    # Topics that are written
    NodeKind.SINK: Operator(sinks.sink, batch=batch_steps.emit),
    NodeKind.TABLE_SINK: Operator(sinks.table_sink, batch=batch_steps.emit),
    # Topics between subtopologies: written by one, read by another
    NodeKind.REPARTITION: Operator(
        sinks.internal_sink, batch=batch_steps.emit, source=_forward, reads_batches=True
    ),
    NodeKind.TABLE_GROUP: Operator(sinks.internal_sink, source=_forward),
    NodeKind.FRAME: Operator(source=_forward, reads_batches=True),  # written by Spark
    NodeKind.ADMITTED: Operator(source=_forward, reads_batches=True),  # written by its gate
    # Gates. No step handles their commands: gate/follow.py applies them.
    NodeKind.GATE: Operator(_gate),
    NodeKind.GATE_STATUS: Operator(),
    NodeKind.GATE_TRIGGER: Operator(),
}
