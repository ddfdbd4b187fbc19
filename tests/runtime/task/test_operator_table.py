"""The table of operators: every kind of node has an entry, and every batch form is compared with its step."""

from __future__ import annotations

import pytest
from tests.runtime.batches.test_whole_batches import TOPOLOGIES

from tidegate import App
from tidegate.runtime.task.batch_chain import batch_chain
from tidegate.runtime.task.operator_table import OPERATORS
from tidegate.topology.node import COMMANDS, INTERNAL, SOURCES, NodeKind

WRITTEN_BY_OTHERS = (NodeKind.FRAME, NodeKind.ADMITTED)  # Spark, and the gate itself


def test_every_kind_of_node_has_an_operator() -> None:
    assert set(OPERATORS) == set(NodeKind)


@pytest.mark.parametrize("kind", NodeKind)
def test_an_operator_takes_records_from_where_its_node_has_them(kind: NodeKind) -> None:
    operator = OPERATORS[kind]
    from_parents = [maker for maker in (operator.step, operator.join) if maker is not None]
    assert len(from_parents) == (kind not in SOURCES and kind not in WRITTEN_BY_OTHERS)
    reads_a_topic = kind in (*SOURCES, *INTERNAL) and kind not in COMMANDS
    assert (operator.source is not None) == reads_a_topic


@pytest.mark.parametrize("kind", NodeKind)
def test_what_runs_over_batches_runs_over_records_too(kind: NodeKind) -> None:
    operator = OPERATORS[kind]
    assert operator.batch is None or operator.step is not None
    assert not operator.reads_batches or operator.source is not None


def test_every_batch_form_is_compared_with_its_step() -> None:
    """`batches/test_whole_batches.py` compares what both paths commit, for each of its topologies. A new
    batch form needs a topology there."""
    compared: set[NodeKind] = set()
    for declare in TOPOLOGIES:
        app = App("app")
        declare(app)
        topology = app.build()
        for sub in topology.subtopologies():
            compared |= {node.node.kind for node in batch_chain(topology, sub) or ()}
    assert compared == {kind for kind, operator in OPERATORS.items() if operator.batch is not None}
