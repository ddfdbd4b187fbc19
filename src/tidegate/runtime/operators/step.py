"""What the modules that compile nodes into handlers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tidegate.errors import StateError, UserCodeError
from tidegate.log.names import check_header
from tidegate.record import Record
from tidegate.runtime.operators.change import Change
from tidegate.runtime.operators.context import Handler, OperatorHost, StepContext
from tidegate.runtime.operators.replaced import Replaced
from tidegate.topology.graph import Topology
from tidegate.topology.node import Node

R = Record[Any, Any]
Getter = Callable[[Any], tuple[Any, int]]
"""Returns a table's row for a key, and its time; None if there is no row."""


class Chain(Protocol):
    """The part of a chain that is needed to compile a handler."""

    @property
    def host(self) -> OperatorHost: ...

    @property
    def topology(self) -> Topology: ...

    def forward(self, node: Node) -> Handler: ...

    def handler(self, node: Node, parent: int) -> Handler: ...

    def getter(self, node: Node, *, before: bool = False) -> Getter:
        """Return how a table's row is read; with `before` as it was before the current change."""
        ...

    def replaced(self, store: str) -> Replaced | None:
        """Return where the step that changes a store records what it replaces; None if no step needs it."""
        ...

    def watched(self, store: str) -> Replaced:
        """Return the same, and record that a step needs it."""
        ...

    def gate(self, node: Node) -> Handler:
        """Return the handler of a gate for events."""
        ...

    def self_join(self, node: Node, make: Callable[[], Callable[[int], Handler]]) -> Callable[[int], Handler]:
        """Return the handlers of a join of a table with itself, by parent: created once, since its sides
        share them."""
        ...

    def add_step(self, step: Any, context: StepContext) -> None: ...


def needed(node: Node, key: Any) -> Any:
    if key is None:
        raise StateError(
            "null-key",
            f"{node.label} needs a key, and this record has none",
            "give each record a key, or filter it out",
        )
    return key


def changed(record: R, change: Change, timestamp: int) -> R:
    """Return a record with a change, at its own time."""
    return Record(
        record.key, change, timestamp, record.headers, record.topic, record.partition, record.offset
    )


def checked(node: Node, result: Any) -> R:
    """Return a record that user code created, or raise if it cannot be written. It is checked here, since the
    commit concerns many records."""
    if not isinstance(result, Record):
        raise _wrong(
            node, f"produced a {type(result).__name__}", "use a Record, such as record.with_value(...)"
        )
    if type(result.timestamp) is not int:
        raise _wrong(
            node, f"produced a record with timestamp {result.timestamp!r}", "use milliseconds, an int"
        )
    for name, value in result.headers:
        check_header(name)
        if value is not None and not isinstance(value, bytes):
            raise _wrong(node, f"set header {name!r} to a {type(value).__name__}", "use bytes or None")
    return result


def _wrong(node: Node, message: str, hint: str) -> UserCodeError:
    return UserCodeError("wrong-type", f"{node.label} at {node.location} {message}", hint)
