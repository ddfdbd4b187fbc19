"""Steps of tables: they carry changes, and answer what a row is now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.runtime.change import Change
from tidegate.runtime.context import Handler
from tidegate.runtime.step import Chain, Getter, R, needed
from tidegate.topology.node import Kind, Node


def table(chain: Chain, node: Node) -> Handler:
    store, forward = chain.host.store(node.stores[0]), chain.forward(node)

    def handle(record: R) -> None:
        key = needed(node, record.key)
        old = store.get(key)
        store.put(key, record.value)
        forward(record.with_value(Change(old, record.value)))

    return handle


def table_map(chain: Chain, node: Node) -> Handler:
    function, forward = _or_none(node.functions["function"]), chain.forward(node)
    return lambda record: forward(
        record.with_value(Change(function(record.value.old), function(record.value.new)))
    )


def table_filter(chain: Chain, node: Node) -> Handler:
    keep, forward = _passing(node.functions["function"]), chain.forward(node)

    def handle(record: R) -> None:
        change = Change(keep(record.value.old), keep(record.value.new))
        if change.old is not None or change.new is not None:
            forward(record.with_value(change))

    return handle


def table_join(chain: Chain, node: Node, parent: int) -> Handler:
    left_node, right_node = (chain.topology.nodes[number] for number in node.parents)
    forward, join = chain.forward(node), _joined(node)
    from_left = parent == node.parents[0]
    other = chain.getter(right_node if from_left else left_node)

    def handle(record: R) -> None:
        beside = other(record.key)
        old, new = record.value
        change = (
            Change(join(old, beside), join(new, beside))
            if from_left
            else Change(join(beside, old), join(beside, new))
        )
        if change.old is not None or change.new is not None:
            forward(record.with_value(change))

    return handle


def table_aggregate(chain: Chain, node: Node) -> Handler:
    store, forward = chain.host.store(node.stores[0]), chain.forward(node)
    initial, add, subtract = (node.functions[role] for role in ("initial", "add", "subtract"))
    empty = node.options.get("empty")

    def handle(record: R) -> None:
        key = needed(node, record.key)
        old = total = store.get(key)
        change: Change = record.value
        if change.old is not None:
            total = subtract(initial() if total is None else total, change.old)
        if change.new is not None:
            total = add(initial() if total is None else total, change.new)
        if empty is not None and total == empty:
            total = None
        store.put(key, total)
        forward(record.with_value(Change(old, total)))

    return handle


def getter_of(chain: Chain, node: Node) -> Getter:
    """How another step reads a table's row, now."""
    if node.stores:
        getter: Getter = chain.host.store(node.stores[0]).get
        return getter
    first = chain.getter(chain.topology.nodes[node.parents[0]])
    if node.kind is Kind.TABLE_MAP:
        function = _or_none(node.functions["function"])
        return lambda key: function(first(key))
    if node.kind is Kind.TABLE_FILTER:
        keep = _passing(node.functions["function"])
        return lambda key: keep(first(key))
    second, join = chain.getter(chain.topology.nodes[node.parents[1]]), _joined(node)
    return lambda key: join(first(key), second(key))


def _or_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _passing(predicate: Callable[[Any], bool]) -> Callable[[Any], Any]:
    return lambda value: value if value is not None and predicate(value) else None


def _joined(node: Node) -> Callable[[Any, Any], Any]:
    function, left = node.functions["function"], node.options["left"]
    return lambda one, two: None if one is None or (two is None and not left) else function(one, two)
