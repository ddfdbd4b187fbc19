"""The part of a task that its gates use."""

from __future__ import annotations

from functools import partial
from typing import Any

from tidegate.errors import TidegateError
from tidegate.gate.batches import GateBatches
from tidegate.gate.formats import Held
from tidegate.gate.task_gates import TaskGate
from tidegate.log.positions import TaskId
from tidegate.log.records import RawRecord
from tidegate.record import Record
from tidegate.runtime.batches.unchanged_batch import UnchangedBatch
from tidegate.runtime.output.on_error import error_at_record
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.run_context import RunContext
from tidegate.state.builder import StoreBuilder
from tidegate.state.manager import StateManager
from tidegate.topology.node import Node


class TaskGateHost:
    """Implements `GateHost` with the sender and the state of a task."""

    def __init__(self, context: RunContext, task: TaskId, sender: Sender, state: StateManager) -> None:
        self._context = context
        self._task = task
        self._sender = sender
        self._state = state

    def batches(self, gate: TaskGate) -> GateBatches:
        """Return the whole-batch path through a gate."""
        return GateBatches(gate, self, partial(UnchangedBatch, self._sender, gate.admitted))

    @property
    def partition(self) -> int:
        return self._task.partition

    @property
    def stream_time(self) -> int:
        return self._state.store_time.stream_time

    def now(self) -> int:
        return self._context.now(self.stream_time)

    def store(self, builder: StoreBuilder[Any]) -> Any:
        return self._state.store(builder)

    def begin(self, raw: RawRecord, stream_time: int = -1) -> None:
        self._sender.begin(raw)
        self._state.store_time.stream_time = max(self.stream_time, stream_time)

    def record(self) -> RawRecord:
        return self._sender.current()

    def origin(self) -> str:
        return self._sender.origin_position()

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None:
        self._sender.emit(node, key, value, record)

    def emit_held(self, node: Node, key: bytes, held: Held) -> None:
        self._sender.emit_held(node, key, held)

    def dead_letter(self, raw: RawRecord, error: TidegateError) -> None:
        self._sender.dead_letter(raw, error, self.now())

    def refuse(self, raw: RawRecord, error: TidegateError) -> None:
        self.dead_letter(raw, error_at_record(error, raw, self._task.generation))

    def damaged(self) -> None:
        self._state.environment.damaged()
