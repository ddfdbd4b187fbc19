"""The part of a task that its operators use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.log.positions import TaskId
from tidegate.runtime.modes import on_stream_time
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.operators.context import Emit
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.task.task_clock import TaskClock
from tidegate.runtime.task.task_timers import TaskTimers
from tidegate.runtime.task.timers import ScheduledTimer
from tidegate.state.builder import StoreBuilder
from tidegate.state.manager import StateManager


class TaskOperatorHost:
    """Implements `OperatorHost` with the sender, the state and the timers of a task."""

    def __init__(
        self,
        context: RunContext,
        task: TaskId,
        sender: Sender,
        state: StateManager,
        timers: TaskTimers,
        clock: TaskClock,
    ) -> None:
        self._context = context
        self._task = task
        self._sender = sender
        self._state = state
        self._timers = timers
        self._clock = clock

    @property
    def partition(self) -> int:
        return self._task.partition

    @property
    def stream_time(self) -> int:
        return self._state.store_time.stream_time

    @property
    def replaying(self) -> bool:
        return on_stream_time(self._context.mode)

    @property
    def null_values(self) -> NullValues:
        return self._sender.null_values

    @property
    def emit(self) -> Emit:
        return self._sender.emit

    def now(self) -> int:
        return self._clock.now()

    def origin(self) -> str:
        return self._sender.origin_position()

    def partitions_of_model(self, name: str) -> int:
        return self._context.manifest.models[name].partitions

    def was_accepted(self, model: str, id: str, request: str) -> bool | None:
        decided, at = self._context.decided, self._sender.last
        if decided is None or at is None:
            return None
        return decided.accepted(model, at[0].partition, at[1], id, request)

    def store(self, builder: StoreBuilder[Any]) -> Any:
        return self._state.store(builder)

    def schedule(self, every: int, call: Callable[[int], None], by: str) -> ScheduledTimer:
        return self._timers.timers.schedule(every, call, by)

    def call_timers(self, timers: StoreBuilder[Any], call: Callable[[Any, int], None]) -> None:
        assert timers.clock is not None  # noqa: S101 - that makes it a store of timers
        self._timers.keyed.add(self._state.store(timers), timers.clock, call)
