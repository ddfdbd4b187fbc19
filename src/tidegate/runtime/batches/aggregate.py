"""Aggregates of streams over whole columns, with the same results as record by record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from operator import is_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import StateError
from tidegate.runtime.batches.batch_steps import BatchHost, BatchNode, Step, distinct_objects
from tidegate.runtime.batches.columns import Changes, Columns, Undecoded, Values
from tidegate.runtime.batches.groups import Counted, Groups, replaced
from tidegate.runtime.batches.number_rows import read_numbers, written_numbers
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.operators.kept_rows import NO_TIME, KeptRows
from tidegate.runtime.operators.stateful import addition, aggregation
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node, NodeKind

_Numbers = Callable[[Any, Groups, Columns], tuple[Changes, Any] | None]
"""Takes the numbers in the groups' rows; returns those that each record replaces and makes, and the last
one of each group."""


def aggregate(batch_node: BatchNode, host: BatchHost) -> Step:
    node = batch_node.node
    wants_old = batch_node.child_kinds != (NodeKind.TABLE_SINK,)  # whether a step uses the replaced values
    builder, step = node.stores[0], aggregation(node)
    kept = KeptRows(builder, host.store(builder))
    counting = node.options["built_in"] == "count"
    number = node.functions["number"] if node.options["built_in"] == "sum" else None
    if number is not None:
        step = addition(node)

    def handle(columns: Columns) -> Columns:
        columns = _with_values(columns, host.null_values)
        if not len(columns):
            return columns.with_values(Changes([], []))
        if number is not None:
            columns = columns.with_values(distinct_objects(list(map(number, columns.listed()))))
        keys, groups = _by_key(node, columns, builder)
        if (counting or number is not None) and kept.numbers:
            found_in_columns = _in_columns(kept, keys, groups, columns, _counts if counting else _sums)
            if found_in_columns is not None:
                return found_in_columns
        found, times = kept.load_many(keys)
        if counting:
            changes, newest = _counted(kept, found, groups, columns)
        elif kept.plain is not None:
            changes, newest = _folded_plain(kept, keys, found, groups, columns, step)
        else:
            changes, newest = _folded(kept, keys, found, groups, columns, step, wants_old=wants_old)
        at = _times(columns, groups, times, changes.new) if kept.timed else columns.timestamps
        kept.save_many(keys, newest, at.take(groups.last).to_pylist())
        return replace(columns.with_values(changes), timestamps=at)

    return handle


def _with_values(columns: Columns, ignored: NullValues) -> Columns:
    """Drop and count the records without a value."""
    if columns.no_nulls or isinstance(columns.values, Undecoded):
        return columns
    values = columns.listed()
    if not any(map(is_, values, repeat(None))):
        return columns
    kept = [index for index, value in enumerate(values) if value is not None]
    ignored.count += len(columns) - len(kept)
    return columns.take(kept, [values[index] for index in kept])


def _by_key(node: Node, columns: Columns, builder: StoreBuilder[Any]) -> tuple[list[bytes], Groups]:
    """Return the stored keys of the groups and the groups, ordered by their first records: changelogs keep
    the order of writes. Keys with equal bytes are one key."""
    keys = columns.keys
    if keys.has_null():
        raise StateError("null-key", f"{node.label} needs a key", "give each record a key, or filter it out")
    encoded: list[Any] = keys.column(builder.key, builder.key.encode).to_pylist()
    numbers, distinct = keys.numbers, keys.as_read(builder.key) is not None
    if not distinct:
        first = {key: number for number, key in enumerate(dict.fromkeys(encoded))}
        if len(first) < len(encoded):
            numbers = pa.array([first[key] for key in encoded], pa.int32()).take(numbers)
            encoded = list(first)
    groups = Groups(numbers, len(encoded))
    if distinct and columns.rows is None:  # as they were read: numbered in the order of the first records
        return encoded, groups
    return [encoded[number] for number in groups.keys.to_pylist()], groups


def _in_columns(
    kept: KeptRows, keys: list[bytes], groups: Groups, columns: Columns, numbers: _Numbers
) -> Columns | None:
    """Count or sum up in columns from the store to the store. None if a row, a time or a number needs a
    closer look."""
    rows = read_numbers(kept.rows.get_many(keys))
    if rows is None:
        return None
    times, before = rows
    timestamps = columns.timestamps
    if pc.max(times).as_py() > timestamps[0].as_py() or not pc.cumulative_max(timestamps).equals(timestamps):
        return None
    results = numbers(before, groups, columns)
    if results is None:
        return None
    changes, newest = results
    at = timestamps.take(groups.last)
    kept.save_rows(keys, written_numbers(at, newest), at.to_pylist())
    return columns.with_values(changes)


def _counted(
    kept: KeptRows, found: list[bytes | None], groups: Groups, columns: Columns
) -> tuple[Changes, list[bytes | None]]:
    before: Any = pa.array(kept.read_many(found), pa.int64())
    changes, newest = _counts(before, groups, columns)
    return changes, kept.written_many(newest.to_pylist())


def _counts(before: pa.Array[Any], groups: Groups, _columns: Columns) -> tuple[Changes, pa.Array[Any]]:
    """Return the counts that each record replaces and makes, and the last one of each group."""
    changes = Counted(before, groups)
    return changes, changes.newest


def _sums(before: pa.Array[Any], groups: Groups, columns: Columns) -> tuple[Changes, pa.Array[Any]] | None:
    """Return the sums that each record replaces and makes, and the last one of each group. None if a number
    is not an int, or if the numbers are too large for sums of 64 bits."""
    numbers = columns.listed()
    if set(map(type, numbers)) != {int}:
        return None
    try:
        amounts: Any = pa.array(numbers, pa.int64())
        running: Any = pc.cumulative_sum_checked(amounts.take(groups.order))
        firsts = groups.order.take(groups.starts)
        earlier: Any = pc.subtract_checked(running.take(groups.starts), amounts.take(firsts))
        offset: Any = pc.subtract_checked(pc.fill_null(before, 0), earlier)
        new: Any = pc.add_checked(running.take(groups.back), offset.take(groups.group))
    except (OverflowError, pa.ArrowInvalid):
        return None
    old = replaced(before, groups, pc.subtract(new, amounts))
    return Changes(old, new), new.take(groups.last)


def _folded_plain(
    kept: KeptRows,
    keys: list[bytes],
    found: list[bytes | None],
    groups: Groups,
    columns: Columns,
    step: Callable[[Any, Any], Any],
) -> tuple[Changes, list[bytes | None]]:
    """Fold values that are immutable and have one encoding. A value that is too large to store fails here
    even if a later row of its key replaces it."""
    newest, olds, news, plain = kept.read_many(found), [], [], kept.plain
    for group, value in zip(groups.group.to_pylist(), columns.listed(), strict=True):
        olds.append(newest[group])
        new = step(newest[group], value)
        if type(new) is not plain:
            new = kept.read(kept.written(new))
        newest[group] = new
        news.append(new)
    kept.check_plain(keys, groups.group, news)
    return Changes(olds, news), kept.written_many(newest)


def _folded(
    kept: KeptRows,
    keys: list[bytes],
    found: list[bytes | None],
    groups: Groups,
    columns: Columns,
    step: Callable[[Any, Any], Any],
    *,
    wants_old: bool,
) -> tuple[Changes, list[bytes | None]]:
    """Fold any other values: each step gets a state of its own, and its result is encoded at once."""
    newest, read, written = found, kept.read, kept.written
    olds: list[bytes | None] = []
    news: list[bytes | None] = []
    for group, value in zip(groups.group.to_pylist(), columns.listed(), strict=True):
        before = newest[group]
        newest[group] = after = written(step(read(before), value))
        olds.append(before)
        news.append(after)
    kept.check_sizes(keys, groups.group, news)
    return Changes(kept.read_many(olds) if wants_old else olds, kept.read_many(news)), newest


def _times(columns: Columns, groups: Groups, before: list[int], new: Values) -> pa.Array[Any]:
    """Return the time of each result: the largest of its key so far. A deletion ends the row: the next one
    starts again."""
    timestamps = columns.timestamps
    rising: Any = pc.cumulative_max(timestamps)
    deleted = not isinstance(new, pa.Array) and any(value is None for value in new)
    if not deleted and max(before) <= timestamps[0].as_py() and rising.equals(timestamps):
        return timestamps
    kept_new = [True] * len(columns) if isinstance(new, pa.Array) else [value is not None for value in new]
    newest, times = list(before), []
    for group, time, there in zip(groups.group.to_pylist(), timestamps.to_pylist(), kept_new, strict=True):
        at = max(time, newest[group])
        newest[group] = at if there else NO_TIME
        times.append(at)
    return pa.array(times, pa.int64())
