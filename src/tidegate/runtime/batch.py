"""The same steps over whole lists: many records at once, with the same results as one by one.

Only for chains without a fork whose state is built-in aggregation: there the order of effects is the order
of records, whichever way one walks. A batch that fails leaves nothing behind and is run again record by
record, so that policies meet the record that failed and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.errors import StateError
from tidegate.runtime.change import Change
from tidegate.runtime.stateful_steps import aggregation
from tidegate.state.builder import StoreBuilder
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.node import INTERNAL, Kind, Node

KINDS = (
    Kind.MAP,
    Kind.FLAT_MAP,
    Kind.FILTER,
    Kind.SELECT_KEY,
    Kind.AGGREGATE,
    Kind.TABLE_MAP,
    Kind.TABLE_FILTER,
    Kind.SINK,
    Kind.TABLE_SINK,
    Kind.REPARTITION,
)


@dataclass(slots=True)
class Columns:
    """Records as columns. `rows` says which record of the batch each came from."""

    keys: list[Any]
    values: Sequence[Any]
    timestamps: list[int]
    rows: list[int]

    def kept(self, indices: list[int]) -> Columns:
        return Columns(
            [self.keys[index] for index in indices],
            [self.values[index] for index in indices],
            [self.timestamps[index] for index in indices],
            [self.rows[index] for index in indices],
        )


Step = Callable[[Columns], Columns]


class BatchHost(Protocol):
    """What batch steps need of their task."""

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def at_time(self, timestamp: int) -> None:
        """The time that the next write to a store belongs to."""
        ...

    def emit_columns(self, node: Node, columns: Columns) -> None: ...


def batch_steps(topology: Topology, subtopology: Subtopology, host: BatchHost) -> list[Step] | None:
    """The steps from the only input to the only end, or None if the subtopology is of another shape."""
    if len(subtopology.inputs) != 1:
        return None
    node = topology.nodes[subtopology.inputs[0]]
    if node.kind not in (Kind.SOURCE, Kind.REPARTITION):
        return None
    steps: list[Step] = []
    while children := topology.children(node.id):
        if len(children) != 1 or children[0].kind not in KINDS or len(children[0].parents) != 1:
            return None
        node = children[0]
        if any(store.capacity is not None for store in node.stores):
            return None  # which key it forgets depends on the order of single reads and writes
        steps.append(_step(node, host))
        if node.kind in INTERNAL:
            break
    return steps


def _step(node: Node, host: BatchHost) -> Step:
    if node.kind in (Kind.SINK, Kind.TABLE_SINK, Kind.REPARTITION):
        return _emit(node, host)
    if node.kind is Kind.AGGREGATE:
        return _aggregate(node, host)
    function = node.functions["function"]
    makers: dict[Kind, Callable[[Callable[..., Any]], Step]] = {
        Kind.MAP: _map,
        Kind.FLAT_MAP: _flat_map,
        Kind.FILTER: _filter,
        Kind.SELECT_KEY: _select_key,
        Kind.TABLE_MAP: _table_map,
        Kind.TABLE_FILTER: _table_filter,
    }
    return makers[node.kind](function)


def _map(function: Callable[..., Any]) -> Step:
    return lambda columns: Columns(
        columns.keys, [function(value) for value in columns.values], columns.timestamps, columns.rows
    )


def _flat_map(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        made = [(index, value) for index, old in enumerate(columns.values) for value in function(old)]
        spread = columns.kept([index for index, _ in made])
        spread.values = [value for _, value in made]
        return spread

    return step


def _filter(function: Callable[..., Any]) -> Step:
    return lambda columns: columns.kept(
        [index for index, value in enumerate(columns.values) if function(value)]
    )


def _select_key(function: Callable[..., Any]) -> Step:
    return lambda columns: Columns(
        [function(value) for value in columns.values], columns.values, columns.timestamps, columns.rows
    )


def _aggregate(node: Node, host: BatchHost) -> Step:
    store, step = host.store(node.stores[0]), aggregation(node)
    counting = node.options["built_in"] == "count"

    def aggregate(columns: Columns) -> Columns:
        newest = _rows_of(node, store, columns.keys)
        changes = []
        if counting:
            for key in columns.keys:
                old = newest[key]
                newest[key] = new = 1 if old is None else old + 1
                changes.append(Change(old, new))
        else:
            for key, value in zip(columns.keys, columns.values, strict=True):
                old = newest[key]
                newest[key] = new = step(old, value)
                changes.append(Change(old, new))
        for key, timestamp in dict(zip(columns.keys, columns.timestamps, strict=True)).items():
            host.at_time(timestamp)
            store.put(key, newest[key])
        return Columns(columns.keys, changes, columns.timestamps, columns.rows)

    return aggregate


def _rows_of(node: Node, store: Any, keys: list[Any]) -> dict[Any, Any]:
    distinct = list(dict.fromkeys(keys))
    if None in distinct:
        raise StateError("null-key", f"{node.label} needs a key", "give it one, or filter it out")
    return dict(zip(distinct, store.get_many(distinct), strict=True))


def _table_map(function: Callable[..., Any]) -> Step:
    def one(value: Any) -> Any:
        return None if value is None else function(value)

    return lambda columns: Columns(
        columns.keys,
        [Change(one(old), one(new)) for old, new in columns.values],
        columns.timestamps,
        columns.rows,
    )


def _table_filter(function: Callable[..., Any]) -> Step:
    def one(value: Any) -> Any:
        return value if value is not None and function(value) else None

    def step(columns: Columns) -> Columns:
        changes = [Change(one(old), one(new)) for old, new in columns.values]
        passing = [index for index, (old, new) in enumerate(changes) if old is not None or new is not None]
        return Columns(columns.keys, changes, columns.timestamps, columns.rows).kept(passing)

    return step


def _emit(node: Node, host: BatchHost) -> Step:
    table = node.kind is Kind.TABLE_SINK

    def step(columns: Columns) -> Columns:
        if table:
            changed = [index for index, change in enumerate(columns.values) if change != (None, None)]
            columns = columns.kept(changed) if len(changed) < len(columns.keys) else columns
            columns = Columns(
                columns.keys, [change[1] for change in columns.values], columns.timestamps, columns.rows
            )
        if node.kind is Kind.REPARTITION and None in columns.keys:
            raise StateError("null-key", f"{node.label} needs a key", "give it one, or filter it out")
        host.emit_columns(node, columns)
        return columns

    return step
