"""Steps whose result depends on more than the records of each key in their order: a recalculation may differ
from what was calculated live, although the code is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

from tidegate.topology.graph import Topology
from tidegate.topology.node import INTERNAL, Node, NodeKind
from tidegate.upgrade.plan import OrderSensitive

WALL = "wall"
MIXED = tuple(kind for kind in INTERNAL if kind is not NodeKind.ADMITTED)
"""Internal topics in which records of several tasks lie in the order of their arrival."""


def order_sensitive(topology: Topology, numbers: Iterable[int]) -> list[OrderSensitive]:
    """Return the steps among these that depend on the order of arrival, or on the clock."""
    found = []
    for node in (topology.nodes[number] for number in numbers):
        why = _why(topology, node)
        if why:
            found.append(OrderSensitive(node.label, node.location, why))
    return found


def _why(topology: Topology, node: Node) -> str:
    if node.kind is NodeKind.JOIN:
        return "which row a record is joined with depends on which of both arrived first"
    if node.kind is NodeKind.FRAME:
        return "Spark divides the records into batches by their arrival"
    if node.kind is NodeKind.PROCESS and _uses_wall_clock(node):
        return "its timers follow the wall clock"
    if _sums_floats(node) and _is_behind(topology, node, MIXED):
        return "a sum of floats depends on their order, and a repartition mixes the records of several tasks"
    return ""


def _uses_wall_clock(node: Node) -> bool:
    if any(store.clock == WALL for store in node.stores):
        return True
    return any(_mentions_wall(code) for step in node.functions.values() for code in _codes(step))


def _codes(step: Any) -> Iterator[CodeType]:
    """Yield the byte code of a function, or of the methods of a class."""
    members = (
        [member for kind in step.__mro__ for member in vars(kind).values()]
        if isinstance(step, type)
        else [step]
    )
    for member in members:
        code = getattr(member, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _mentions_wall(code: CodeType) -> bool:
    return any(one == WALL or (isinstance(one, CodeType) and _mentions_wall(one)) for one in code.co_consts)


def _sums_floats(node: Node) -> bool:
    sums = node.options.get("built_in") == "sum"
    return sums and any(store.value.schema().get("format") == "float" for store in node.stores)


def _is_behind(topology: Topology, node: Node, kinds: tuple[NodeKind, ...]) -> bool:
    waiting, seen = list(node.parents), set[int]()
    while waiting:
        number = waiting.pop()
        if topology.nodes[number].kind in kinds:
            return True
        if number not in seen:
            seen.add(number)
            waiting += topology.nodes[number].parents
    return False
