"""The same steps over whole columns: many records at once, with the same results as one by one.

Only for chains without a fork whose state is built-in aggregation: there the order of effects is the order
of records, whichever way one walks. A batch that fails leaves nothing behind and is run again record by
record, so that policies meet the record that failed and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import StateError
from tidegate.runtime.change import Change
from tidegate.runtime.columns import Changes, Columns, Groups, Keys, grouped
from tidegate.runtime.null_values import NullValues
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

Step = Callable[[Columns], Columns]


class BatchHost(Protocol):
    """What batch steps need of their task."""

    @property
    def null_values(self) -> NullValues: ...

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def emit_columns(self, node: Node, columns: Columns) -> None: ...


def batch_steps(topology: Topology, subtopology: Subtopology, host: BatchHost) -> list[Step] | None:
    """The steps from the only input to the only end, or None if the subtopology is of another shape."""
    if len(subtopology.inputs) != 1:
        return None
    node = topology.nodes[subtopology.inputs[0]]
    if node.kind not in (Kind.SOURCE, Kind.REPARTITION, Kind.FRAME, Kind.ADMITTED):
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
    return lambda columns: columns.with_values([function(value) for value in columns.listed()])


def _flat_map(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        made = [(index, value) for index, old in enumerate(columns.listed()) for value in function(old)]
        return columns.take([index for index, _ in made], [value for _, value in made])

    return step


def _filter(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        kept = [(index, value) for index, value in enumerate(columns.listed()) if function(value)]
        return columns.take([index for index, _ in kept], [value for _, value in kept])

    return step


def _select_key(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        keys = [function(value) for value in columns.listed()]
        return replace(columns, keys=Keys(keys, pa.arange(0, len(keys)).cast(pa.int32())))

    return step


def _aggregate(node: Node, host: BatchHost) -> Step:
    builder = node.stores[0]
    store, step = host.store(builder), aggregation(node)
    counting = node.options["built_in"] == "count"

    def aggregate(columns: Columns) -> Columns:
        columns = _with_values(columns, host.null_values)
        if not len(columns):
            return columns.with_values(Changes([], []))
        keys, groups = _by_key(node, columns, builder)
        found = store.get_encoded(keys)
        if counting:
            changes, newest = _counted(found, groups)
        else:
            changes, newest = _folded(found, groups, columns, step)
        store.put_encoded(keys, newest, columns.timestamps.take(groups.last).to_pylist())
        return columns.with_values(changes)

    return aggregate


def _with_values(columns: Columns, ignored: NullValues) -> Columns:
    """Without the records that have no value; those are counted."""
    values = columns.listed()
    if all(value is not None for value in values):
        return columns
    kept = [index for index, value in enumerate(values) if value is not None]
    ignored.count += len(columns) - len(kept)
    return columns.take(kept, [values[index] for index in kept])


def _by_key(node: Node, columns: Columns, builder: StoreBuilder[Any]) -> tuple[list[bytes], Groups]:
    """The stored keys of the groups, and the groups, by their first records: changelogs keep the order of
    writes. Bytes decide what is one key: two forms of it are one row."""
    keys = columns.keys
    if None in keys.distinct:
        raise StateError("null-key", f"{node.label} needs a key", "give it one, or filter it out")
    encoded: list[Any] = keys.encoded(builder.key, builder.key.encode)
    numbers = keys.numbers
    if encoded is keys.raw and columns.rows is None:
        return encoded, grouped(numbers)
    first = {key: number for number, key in enumerate(dict.fromkeys(encoded))}
    if len(first) < len(encoded):
        encoded, numbers = list(first), pa.array([first[key] for key in encoded], pa.int32()).take(numbers)
    by_first: Any = numbers.dictionary_encode()
    return [encoded[number] for number in by_first.dictionary.to_pylist()], grouped(by_first.indices)


def _counted(found: list[int | None], groups: Groups) -> tuple[Changes, list[int]]:
    before: Any = pa.array(found, pa.int64())
    start: Any = pc.fill_null(before, 0)
    new: Any = pc.add(pc.add(start.take(groups.group), groups.place), 1)
    old: Any = pc.subtract(new, 1)
    if before.null_count:
        fresh = pc.and_(pc.equal(groups.place, 0), pc.is_null(before).take(groups.group))
        old = pc.if_else(fresh, pa.scalar(None, pa.int64()), old)
    return Changes(old, new), pc.add(start, groups.sizes.cast(pa.int64())).to_pylist()


def _folded(
    found: list[Any], groups: Groups, columns: Columns, step: Callable[[Any, Any], Any]
) -> tuple[Changes, list[Any]]:
    newest, olds, news = found, [], []
    for group, value in zip(groups.group.to_pylist(), columns.listed(), strict=True):
        olds.append(newest[group])
        newest[group] = new = step(newest[group], value)
        news.append(new)
    return Changes(olds, news), newest


def _table_map(function: Callable[..., Any]) -> Step:
    def one(value: Any) -> Any:
        return None if value is None else function(value)

    def step(columns: Columns) -> Columns:
        changes = [(one(old), one(new)) for old, new in columns.listed()]
        return columns.with_values(Changes([old for old, _ in changes], [new for _, new in changes]))

    return step


def _table_filter(function: Callable[..., Any]) -> Step:
    def one(value: Any) -> Any:
        return value if value is not None and function(value) else None

    def step(columns: Columns) -> Columns:
        changes = [Change(one(old), one(new)) for old, new in columns.listed()]
        kept = [index for index, (old, new) in enumerate(changes) if old is not None or new is not None]
        return columns.take(kept, Changes([changes[i].old for i in kept], [changes[i].new for i in kept]))

    return step


def _emit(node: Node, host: BatchHost) -> Step:
    def step(columns: Columns) -> Columns:
        changes = columns.values
        if isinstance(changes, Changes):
            columns = _rows_to_send(columns, changes)
        if node.kind is Kind.REPARTITION and None in columns.keys.distinct:
            raise StateError("null-key", f"{node.label} needs a key", "give it one, or filter it out")
        if len(columns):
            host.emit_columns(node, columns)
        return columns

    return step


def _rows_to_send(columns: Columns, changes: Changes) -> Columns:
    """New rows; where there was none and is none there is nothing to send."""
    if isinstance(changes.new, pa.Array):
        return columns.with_values(changes.new)
    kept = [index for index, (old, new) in enumerate(changes) if old is not None or new is not None]
    if len(kept) == len(columns):
        return columns.with_values(changes.new)
    return columns.take(kept, [changes.new[index] for index in kept])
