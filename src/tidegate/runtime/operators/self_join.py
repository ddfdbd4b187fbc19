"""Joins of tables whose sides come from one store: a table with itself, with a map or a filter of itself.

A change of the store arrives from both sides, or from one, and when the first arrives the store already has
the new row. So such a join does not combine the sides as they arrive. It knows the row that the change
replaced, reads both sides as they were and as they are, and sends the difference once:

1. the step that changes the store records what it replaced, and passes the change on; 2. the first arrival
sends join(left before, right before) -> join(left now, right now); 3. a second arrival of the same change is
dropped; 4. the replaced row is forgotten. A change of another store that reaches the join is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.runtime.operators.change import Change
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.replaced import Replaced
from tidegate.runtime.operators.step import Getter, R, changed
from tidegate.topology.node import Node


def shared_stores(nodes: Mapping[int, Node], join: Node) -> set[str]:
    """Return the stores that both sides of a join of tables come from."""
    left, right = (_stores_behind(nodes, nodes[parent]) for parent in join.parents)
    return left & right


def self_join(
    sides: tuple[tuple[Getter, Getter], tuple[Getter, Getter]],
    join: Callable[[Any, Any], Any],
    cells: list[Replaced],
    ordinary: Callable[[int], Handler],
    forward: Handler,
) -> Callable[[int], Handler]:
    """Return a handler for each parent. `sides` are the getters of the left and the right side, before and
    now."""
    (left_before, left_now), (right_before, right_now) = sides
    handled: dict[int, int] = {}

    def handle(record: R, otherwise: Handler) -> None:
        cell = next((number for number, one in enumerate(cells) if one.key is not None), None)
        if cell is None:
            otherwise(record)
            return
        if handled.get(cell) == cells[cell].number:
            return
        handled[cell] = cells[cell].number
        key = record.key
        old = join(left_before(key)[0], right_before(key)[0])
        (left, left_at), (right, right_at) = left_now(key), right_now(key)
        change = Change(old, join(left, right))
        if change.old is not None or change.new is not None:
            forward(changed(record, change, max(record.timestamp, left_at, right_at)))

    def of(parent: int) -> Handler:
        otherwise = ordinary(parent)
        return lambda record: handle(record, otherwise)

    return of


def _stores_behind(nodes: Mapping[int, Node], node: Node) -> set[str]:
    own = {store.name for store in node.stores}
    return own or set().union(*(_stores_behind(nodes, nodes[parent]) for parent in node.parents))
