"""Operators over whole columns: many records at once, with the same results as one by one.

A batch that fails is rolled back and run again record by record, so that policies apply to the record that
failed and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import StateError
from tidegate.runtime.batches.columns import Changes, Columns, Keys
from tidegate.runtime.batches.groups import Counted
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.operators.change import Change
from tidegate.runtime.operators.immutable import PLAIN_TYPES, is_immutable
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node, NodeKind

Step = Callable[[Columns], Columns]


class BatchHost(Protocol):
    """The part of a task that batch steps use."""

    @property
    def null_values(self) -> NullValues: ...

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def emit_columns(self, node: Node, columns: Columns) -> None: ...


BatchMaker: TypeAlias = "Callable[[BatchNode, BatchHost], Step]"
"""Returns the step of a node for batches."""


@dataclass(frozen=True, slots=True)
class BatchNode:
    """A node of a chain that runs over whole batches."""

    node: Node
    make: BatchMaker
    child_kinds: tuple[NodeKind, ...]

    def step(self, host: BatchHost) -> Step:
        return self.make(self, host)


def _of_function(make: Callable[[Callable[..., Any]], Step]) -> BatchMaker:
    """Return the maker of a step that needs one function of the user and nothing else."""
    return lambda batch_node, _: make(batch_node.node.functions["function"])


class SharedMutableValue(Exception):  # noqa: N818 - no failure: the batch is run record by record
    """A function returned one object for several records. Record by record, each is used before the next is
    computed; in a batch the last state of the object would count for all."""


def distinct_objects(values: list[Any]) -> list[Any]:
    """Return the values. Raises if a mutable one occurs twice."""
    if set(map(type, values)) <= PLAIN_TYPES or len(set(map(id, values))) == len(values):
        return values
    counts: dict[int, int] = {}
    for value in values:
        counts[id(value)] = times = counts.get(id(value), 0) + 1
        if times == 2 and not is_immutable(value):
            raise SharedMutableValue
    return values


@_of_function
def map_values(function: Callable[..., Any]) -> Step:
    return lambda columns: columns.with_values(distinct_objects(list(map(function, columns.listed()))))


@_of_function
def flat_map(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        results = [(index, value) for index, old in enumerate(columns.listed()) for value in function(old)]
        values = distinct_objects([value for _, value in results])
        return columns.take([index for index, _ in results], values)

    return step


@_of_function
def filter_values(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        values = columns.listed()
        passes = list(map(bool, map(function, values)))
        if all(passes):
            return columns
        return columns.select(pc.indices_nonzero(pa.array(passes)), list(compress(values, passes)))

    return step


@_of_function
def select_key(function: Callable[..., Any]) -> Step:
    def step(columns: Columns) -> Columns:
        keys = distinct_objects(list(map(function, columns.listed())))
        return replace(columns, keys=Keys(keys, pa.arange(0, len(keys)).cast(pa.int32())))

    return step


@_of_function
def table_map(function: Callable[..., Any]) -> Step:
    def one(value: Any) -> Any:
        return None if value is None else function(value)

    def step(columns: Columns) -> Columns:
        changes = [(one(old), one(new)) for old, new in columns.listed()]
        olds, news = ([change[side] for change in changes] for side in (0, 1))
        return columns.with_values(Changes(olds, distinct_objects(news)))

    return step


@_of_function
def table_filter(function: Callable[..., Any]) -> Step:
    def one(value: Any) -> Any:
        return value if value is not None and function(value) else None

    def step(columns: Columns) -> Columns:
        changes = [Change(one(old), one(new)) for old, new in columns.listed()]
        kept = [index for index, (old, new) in enumerate(changes) if old is not None or new is not None]
        return columns.take(kept, Changes([changes[i].old for i in kept], [changes[i].new for i in kept]))

    return step


def emit(batch_node: BatchNode, host: BatchHost) -> Step:
    node = batch_node.node

    def step(columns: Columns) -> Columns:
        changes = columns.values
        if isinstance(changes, Changes):
            columns = _rows_to_send(columns, changes)
        if node.kind is NodeKind.REPARTITION and columns.keys.has_null():
            raise StateError(
                "null-key", f"{node.label} needs a key", "give each record a key, or filter it out"
            )
        if len(columns):
            host.emit_columns(node, columns)
        return columns

    return step


def _rows_to_send(columns: Columns, changes: Changes) -> Columns:
    """Return the new rows to send; where there was no row and is none, there is nothing to send."""
    if isinstance(changes, Counted):
        return columns
    if isinstance(changes.new, pa.Array):
        return columns.with_values(changes.new)
    kept = [index for index, (old, new) in enumerate(changes) if old is not None or new is not None]
    if len(kept) == len(columns):
        return columns.with_values(changes.new)
    return columns.take(kept, [changes.new[index] for index in kept])
