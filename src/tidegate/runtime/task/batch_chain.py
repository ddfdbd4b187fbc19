"""Compile a subtopology into a chain of steps over whole batches."""

from __future__ import annotations

from tidegate.runtime.batches.batch_steps import BatchNode
from tidegate.runtime.task.operator_table import OPERATORS
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.node import INTERNAL


def batch_chain(topology: Topology, subtopology: Subtopology) -> list[BatchNode] | None:
    """Return the nodes from the only input to the only end, or None if the subtopology has another shape.

    Only chains without a fork whose state is built-in aggregation run over whole batches: there the order of
    effects is the order of records on both paths.
    """
    if len(subtopology.inputs) != 1:
        return None
    node = topology.nodes[subtopology.inputs[0]]
    if not OPERATORS[node.kind].reads_batches:
        return None
    found: list[BatchNode] = []
    while children := topology.children(node.id):
        node = children[0]
        make = OPERATORS[node.kind].batch
        if make is None or len(children) != 1 or len(node.parents) != 1:
            return None
        if any(store.capacity is not None for store in node.stores):
            return None  # which key it evicts depends on the order of single reads and writes
        found.append(BatchNode(node, make, tuple(child.kind for child in topology.children(node.id))))
        if node.kind in INTERNAL:
            break
    return found
