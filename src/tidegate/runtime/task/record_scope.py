"""The effects of one record or batch in a task: all of them are kept, or none."""

from __future__ import annotations

from tidegate.gate.task_gates import TaskGates
from tidegate.log.records import RawRecord
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.task.progress import TaskProgress
from tidegate.runtime.task.timers import Timers
from tidegate.state.manager import StateManager


class TaskRecordScope:
    """Implements `RecordScope` of the gate: the effects of commands are all kept or none, too."""

    def __init__(
        self, state: StateManager, sender: Sender, gates: TaskGates, timers: Timers, progress: TaskProgress
    ) -> None:
        self._state = state
        self._sender = sender
        self._gates = gates
        self._timers = timers
        self._progress = progress

    def begin(self) -> None:
        """Mark the state that `roll_back` returns to."""
        self._state.begin_record()
        self._sender.begin_record()
        self._gates.begin_record()
        self._timers.begin_record()

    def roll_back(self) -> None:
        """Undo everything since `begin`."""
        self._state.roll_back()
        self._sender.roll_back()
        self._gates.roll_back()
        self._timers.roll_back()

    def keep(self) -> None:
        """Keep everything since `begin`."""
        self._state.end_record()

    def passed(self, raw: RawRecord) -> None:
        """Advance the position of the record's partition past it."""
        self._progress.passed(raw)
