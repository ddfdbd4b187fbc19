"""What makes handlers out of nodes: shared by the files that do."""

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
"""From a key to a table's row and its time, now; None if there is no row."""


class Chain(Protocol):
    """What the makers of handlers need of the chain that they work for."""

    @property
    def host(self) -> OperatorHost: ...

    @property
    def topology(self) -> Topology: ...

    def forward(self, node: Node) -> Handler: ...

    def handler(self, node: Node, parent: int) -> Handler: ...

    def getter(self, node: Node, *, before: bool = False) -> Getter:
        """How a table's row is read; with `before` as it was before the change in work."""
        ...

    def replaced(self, store: str) -> Replaced | None:
        """Where the step that changes a store notes what it replaces; None if no step needs it."""
        ...

    def watched(self, store: str) -> Replaced:
        """The same, and from now on a step needs it."""
        ...

    def gate(self, node: Node) -> Handler:
        """What a gate does with an event."""
        ...

    def self_join(self, node: Node, make: Callable[[], Callable[[int], Handler]]) -> Callable[[int], Handler]:
        """The handlers of a join of a table with itself, by parent: made once, since its sides share them."""
        ...

    def add_step(self, step: Any, context: StepContext) -> None: ...


def needed(node: Node, key: Any) -> Any:
    if key is None:
        raise StateError(
            "null-key", f"{node.label} needs a key, and this record has none", "give it one, or filter it out"
        )
    return key


def changed(record: R, change: Change, timestamp: int) -> R:
    """A change that a record brings about, at its own time."""
    return Record(
        record.key, change, timestamp, record.headers, record.topic, record.partition, record.offset
    )


def checked(node: Node, made: Any) -> R:
    """A record that user code made, if it is one. What cannot be written must show now: the commit, where it
    would show otherwise, belongs to many records."""
    if not isinstance(made, Record):
        raise _wrong(node, f"gave a {type(made).__name__}", "give a Record, such as record.with_value(...)")
    if type(made.timestamp) is not int:
        raise _wrong(node, f"gave a record with timestamp {made.timestamp!r}", "give milliseconds, an int")
    for name, value in made.headers:
        check_header(name)
        if value is not None and not isinstance(value, bytes):
            raise _wrong(node, f"gave header {name!r} a {type(value).__name__}", "give bytes or None")
    return made


def _wrong(node: Node, message: str, hint: str) -> UserCodeError:
    return UserCodeError("wrong-type", f"{node.label} at {node.location} {message}", hint)
