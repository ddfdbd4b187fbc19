"""What the stores of a task must hold, computed in plain Python."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.simulator.program import LRU_CAPACITY, WINDOW_MS, WINDOW_RETENTION_MS, Op

from tidegate.state.key_value import Stamped


class Input(NamedTuple):
    """A record that a task reads; without an operation it is time-only."""

    op: Op | None
    timestamp: int
    time: int
    """The stream time that it brings: behind a gate that of its origin."""


class Expected:
    """The fold of a task's inputs, one after the other."""

    def __init__(self) -> None:
        self.stream_time = -1
        self._rows: dict[str, dict[Any, Any]] = {}

    def take(self, given: Input, value: str) -> None:
        """One more input, and the value that it wrote if it did."""
        self.stream_time = max(self.stream_time, given.time)
        op, timestamp = given.op, given.timestamp
        if op is None or op.action == "fail":
            return
        rows = self._rows.setdefault(op.store, {})
        place = (op.key, op.start) if op.store == "windows" else op.key
        if op.store == "windows" and op.start < self._first_window():
            return
        rows.pop(place, None)
        if op.action == "put":
            rows[place] = Stamped(value, timestamp) if op.store == "stamped" else value
        if op.store == "few" and len(rows) > LRU_CAPACITY:
            del rows[next(iter(rows))]

    def rows(self, store: str) -> dict[Any, Any]:
        """What is visible in a store."""
        found = self._rows.get(store, {})
        if store != "windows":
            return found
        first = self._first_window()
        return {place: value for place, value in found.items() if place[1] >= first}

    def _first_window(self) -> int:
        return self.stream_time - WINDOW_RETENTION_MS - WINDOW_MS + 1
