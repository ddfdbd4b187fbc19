"""The effects of one record in a task, or of one batch: all of them are kept, or none."""

from __future__ import annotations

from tidegate.gate.task_gates import TaskGates
from tidegate.log.records import RawRecord
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.task.progress import TaskProgress
from tidegate.runtime.task.timers import Timers
from tidegate.state.manager import StateManager


class TaskRecordScope:
    """Implements `RecordScope` of the gate: commands have all their effects or none, too."""

    def __init__(
        self, state: StateManager, sender: Sender, gates: TaskGates, timers: Timers, progress: TaskProgress
    ) -> None:
        self._state = state
        self._sender = sender
        self._gates = gates
        self._timers = timers
        self._progress = progress

    def begin(self) -> None:
        """From here on effects can be taken back."""
        self._state.begin_record()
        self._sender.begin_record()
        self._gates.begin_record()
        self._timers.begin_record()

    def take_back(self) -> None:
        """Undo everything since `begin`."""
        self._state.take_back()
        self._sender.take_back()
        self._gates.take_back()
        self._timers.take_back()

    def keep(self) -> None:
        """Keep everything since `begin`."""
        self._state.end_record()

    def passed(self, raw: RawRecord) -> None:
        """The record is done: the position of its partition is behind it."""
        self._progress.passed(raw)
