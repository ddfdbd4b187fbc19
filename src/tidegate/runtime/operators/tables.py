"""Steps of tables: they pass changes on, and return the current row of a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.runtime.operators.change import Change
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.kept_rows import NO_TIME, KeptRows, initial_value, wants_old
from tidegate.runtime.operators.replaced import Replaced
from tidegate.runtime.operators.self_join import self_join, shared_stores
from tidegate.runtime.operators.step import Chain, Getter, R, changed, needed
from tidegate.topology.node import Node, NodeKind


def table(chain: Chain, node: Node) -> Handler:
    kept, forward = KeptRows(node.stores[0], chain.host.store(node.stores[0])), chain.forward(node)
    with_old, cell = wants_old(chain, node), chain.replaced(node.stores[0].name)

    def handle(record: R) -> None:
        key = kept.key(needed(node, record.key))
        before, at = kept.load(key)
        kept.save(key, kept.written(record.value), record.timestamp)
        result = record.with_value(Change(kept.read(before) if with_old else before, record.value))
        if cell is None:
            forward(result)
        else:
            cell.forward(key, before, at, lambda: forward(result))

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
    shared = shared_stores(chain.topology.nodes, node)
    if not shared:
        return _join_of_two(chain, node, parent)
    return chain.self_join(node, lambda: _self_join(chain, node, sorted(shared)))(parent)


def _join_of_two(chain: Chain, node: Node, parent: int) -> Handler:
    left_node, right_node = (chain.topology.nodes[number] for number in node.parents)
    forward, join = chain.forward(node), _joined(node)
    from_left = parent == node.parents[0]
    other = chain.getter(right_node if from_left else left_node)

    def handle(record: R) -> None:
        beside, at = other(record.key)
        old, new = record.value
        change = (
            Change(join(old, beside), join(new, beside))
            if from_left
            else Change(join(beside, old), join(beside, new))
        )
        if change.old is not None or change.new is not None:
            forward(changed(record, change, max(at, record.timestamp)))

    return handle


def table_aggregate(chain: Chain, node: Node) -> Handler:
    kept, forward = KeptRows(node.stores[0], chain.host.store(node.stores[0])), chain.forward(node)
    initial, add, subtract = (node.functions[role] for role in ("initial", "add", "subtract"))
    begin, empty, with_old = initial_value(initial), node.options.get("empty"), wants_old(chain, node)
    cell = chain.replaced(node.stores[0].name)

    def handle(record: R) -> None:
        key = kept.key(needed(node, record.key))
        before, replaced_at = kept.load(key)
        old = total = kept.read(before)
        change: Change = record.value
        if change.old is not None:
            total = subtract(begin() if total is None else total, change.old)
        if change.new is not None:
            total = add(begin() if total is None else total, change.new)
        if empty is not None and total == empty:
            total = None
        after, at = kept.written(total), max(replaced_at, record.timestamp)
        kept.save(key, after, at)
        old, new = kept.isolated(old, before) if with_old else old, kept.isolated(total, after)
        result = changed(record, Change(old, new), at)
        if cell is None:
            forward(result)
        else:
            cell.forward(key, before, replaced_at, lambda: forward(result))

    return handle


def _self_join(chain: Chain, node: Node, shared: list[str]) -> Callable[[int], Handler]:
    cells = [chain.watched(store) for store in shared]
    left, right = (
        (chain.getter(side, before=True), chain.getter(side))
        for side in (chain.topology.nodes[number] for number in node.parents)
    )
    return self_join(
        (left, right),
        _joined(node),
        cells,
        lambda parent: _join_of_two(chain, node, parent),
        chain.forward(node),
    )


def getter_of(chain: Chain, node: Node, *, before: bool = False) -> Getter:
    """Return how another step reads a table's row: now, or as it was before the current change."""
    if node.stores:
        kept = KeptRows(node.stores[0], chain.host.store(node.stores[0]))
        cell = chain.replaced(node.stores[0].name)
        return _from_store(kept) if cell is None or not before else _from_before(kept, cell)
    first = chain.getter(chain.topology.nodes[node.parents[0]], before=before)
    if node.kind in (NodeKind.TABLE_MAP, NodeKind.TABLE_FILTER):
        over = _or_none if node.kind is NodeKind.TABLE_MAP else _passing
        return _mapped(over(node.functions["function"]), first)
    second = chain.getter(chain.topology.nodes[node.parents[1]], before=before)
    return _of_both(_joined(node), first, second)


def _from_store(kept: KeptRows) -> Getter:
    def get(key: Any) -> tuple[Any, int]:
        data, at = kept.load(kept.key(key))
        return kept.read(data), at

    return get


def _from_before(kept: KeptRows, cell: Replaced) -> Getter:
    now = _from_store(kept)

    def get(key: Any) -> tuple[Any, int]:
        return (kept.read(cell.data), cell.time) if kept.key(key) == cell.key else now(key)

    return get


def _mapped(function: Callable[[Any], Any], getter: Getter) -> Getter:
    def get(key: Any) -> tuple[Any, int]:
        value, at = getter(key)
        result = function(value)
        return result, at if result is not None else NO_TIME

    return get


def _of_both(join: Callable[[Any, Any], Any], first: Getter, second: Getter) -> Getter:
    def get(key: Any) -> tuple[Any, int]:
        one, at = first(key)
        two, other = second(key)
        result = join(one, two)
        return result, max(at, other) if result is not None else NO_TIME

    return get


def _or_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _passing(predicate: Callable[[Any], bool]) -> Callable[[Any], Any]:
    return lambda value: value if value is not None and predicate(value) else None


def _joined(node: Node) -> Callable[[Any, Any], Any]:
    function, left = node.functions["function"], node.options["left"]
    return lambda one, two: None if one is None or (two is None and not left) else function(one, two)
