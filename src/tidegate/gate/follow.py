"""Apply commands before records: in each gate first the requested statuses, then the triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidegate.errors import TidegateError
from tidegate.gate.host import CommandBuffer, GateHost, RecordScope
from tidegate.gate.step import GateStep
from tidegate.gate.task_gates import TaskGate, TaskGates
from tidegate.log.records import RawRecord
from tidegate.types import TopicPartition

Ends = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]
_BAD = {"bad-command", "bad-epoch", "bad-key", "null-key", "wrong-partition"}


class CommandFollower:
    """Applies the commands of all gates of one task."""

    def __init__(
        self,
        gates: TaskGates,
        host: GateHost,
        scope: RecordScope,
        commands: CommandBuffer,
        ends: Ends,
    ) -> None:
        """`ends` returns the ends of partitions in the log, uncommitted records included."""
        self._gates = gates
        self._host = host
        self._scope = scope
        self._commands = commands
        self._ends = ends

    def follow(self) -> None:
        """Apply all commands that can be applied."""
        commands = self._commands
        for gate in self._gates.all:
            while (raw := commands.command(gate.status)) is not None:
                self._try(raw, _status_command(gate.step, raw))
                commands.take_command(gate.status)
            while (raw := commands.command(gate.trigger)) is not None:
                read = commands.read_to(gate.status)
                if not self._try(raw, _trigger_command(gate, raw, read, self._ends)):
                    break
                commands.take_command(gate.trigger)

    def _try(self, raw: RawRecord, apply: Callable[[], bool]) -> bool:
        """Apply a command with all its effects or none. Returns False if it has to wait. An invalid command
        changes nothing and becomes a dead letter, whatever the policy for events."""
        host, scope = self._host, self._scope
        host.begin(raw)
        scope.begin()
        try:
            applied = apply()
        except TidegateError as error:
            if error.code not in _BAD:
                raise
            scope.roll_back()
            self._gates.count_refused(raw)
            host.refuse(raw, error)
        else:
            scope.keep()
            if not applied:
                return False
        scope.passed(raw)
        return True


def _status_command(step: GateStep, raw: RawRecord) -> Callable[[], bool]:
    def apply() -> bool:
        step.apply_status(raw)
        return True

    return apply


def _trigger_command(gate: TaskGate, raw: RawRecord, read: int, ends: Ends) -> Callable[[], bool]:
    return lambda: gate.step.trigger(raw, read, lambda: ends([gate.status])[gate.status])
