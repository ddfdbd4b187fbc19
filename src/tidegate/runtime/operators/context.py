"""The context of one `process` step in one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tidegate.errors import StateError, UserCodeError
from tidegate.record import Record
from tidegate.runtime.null_values import NullValues
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node

Handler = Callable[[Record[Any, Any]], None]
RecordCheck = Callable[[Node, Any], Record[Any, Any]]
"""Checks a record that user code created; raises if it cannot be written."""


class Timer(Protocol):
    """A repeated call, until it is cancelled."""

    def cancel(self) -> None: ...


Emit = Callable[[Node, "bytes | None", "bytes | None", Record[Any, Any]], None]
"""Sends one record of a node, with this key and value, to its topic."""


class OperatorHost(Protocol):
    """The part of a task that its operators use."""

    @property
    def partition(self) -> int: ...

    @property
    def stream_time(self) -> int: ...

    @property
    def replaying(self) -> bool: ...

    @property
    def null_values(self) -> NullValues: ...

    @property
    def emit(self) -> Emit: ...

    def now(self) -> int: ...

    def origin(self) -> str:
        """Return the position that the current record comes from."""
        ...

    def partitions_of_model(self, name: str) -> int: ...

    def was_accepted(self, model: str, id: str, request: str) -> bool | None:
        """Return whether the current request to a model was accepted before; None in a live run, or if that
        is not known any more."""
        ...

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def schedule(self, every: int, call: Callable[[int], None], by: str) -> Timer: ...

    def call_timers(self, timers: StoreBuilder[Any], call: Callable[[Any, int], None]) -> None:
        """Call this function for each key of a store of timers, when its time has come."""
        ...


class StepContext:
    """Implements `Context` for user code."""

    def __init__(
        self,
        host: OperatorHost,
        node: Node,
        forward: Handler,
        named: Mapping[str, Handler],
        checked: RecordCheck,
    ) -> None:
        self._host = host
        self._node = node
        self._forward = forward
        self._named = named
        self._checked = checked
        self._closed = False
        self._known: dict[int, Any] = {}
        """The stores that were requested, by the identity of the builders that the node holds."""

    @property
    def stream_time(self) -> int:
        return self._host.stream_time

    @property
    def replaying(self) -> bool:
        return self._host.replaying

    @property
    def partition(self) -> int:
        return self._host.partition

    def now(self) -> int:
        return self._host.now()

    def store(self, builder: StoreBuilder[Any]) -> Any:
        """Return a declared store. This is called with every record, so only the first call checks the
        declaration."""
        found = self._known.get(id(builder))
        if found is not None and not self._closed:
            return found
        if not any(declared is builder for declared in self._node.stores):
            raise StateError(
                "undeclared-store",
                f"{self._node.label} uses store {builder.name!r}, which it did not declare",
                f"pass it: process({self._node.name!r}, ..., stores=[...])",
            )
        found = self._known[id(builder)] = self._host.store(builder)
        return found

    def forward(self, record: Record[Any, Any], to: str | None = None) -> None:
        if self._closed:
            raise StateError(
                "closed", f"{self._node.label} forwards after its close", "forward before it ends"
            )
        # What most steps forward needs no check.
        passes = type(record) is Record and type(record.timestamp) is int and record.headers == ()
        result = record if passes else self._checked(self._node, record)
        if to is None:
            self._forward(result)
        elif to in self._named:
            self._named[to](result)
        else:
            known = ", ".join(sorted(self._named)) or "none has a name"
            raise UserCodeError(
                "no-such-child", f"{self._node.label} forwards to {to!r}", f"steps behind it: {known}"
            )

    def schedule(self, every: int, call: Callable[[int], None], *, by: str = "stream") -> Timer:
        if every < 1 or by not in ("stream", "wall"):
            raise StateError(
                "bad-timer", f"a timer every {every} ms by {by!r}", 'use milliseconds, "stream" or "wall"'
            )
        return self._host.schedule(every, call, by)

    def close(self) -> None:
        self._closed = True
