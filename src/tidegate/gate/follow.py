"""Commands come before records: in each gate first the requested statuses, then the triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidegate.errors import TidegateError
from tidegate.gate.host import Commands, GateHost, RecordScope
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
        commands: Commands,
        ends: Ends,
    ) -> None:
        """`ends` requests from the log how far partitions go, with what is not committed yet."""
        self._gates = gates
        self._host = host
        self._scope = scope
        self._commands = commands
        self._ends = ends

    def follow(self) -> None:
        """Take all commands that can be taken."""
        commands = self._commands
        for gate in self._gates.all:
            while (raw := commands.command(gate.status)) is not None:
                self._try(raw, _wish(gate.step, raw))
                commands.take_command(gate.status)
            while (raw := commands.command(gate.trigger)) is not None:
                read = commands.read_to(gate.status)
                if not self._try(raw, _trigger(gate, raw, read, self._ends)):
                    break
                commands.take_command(gate.trigger)

    def _try(self, raw: RawRecord, follow: Callable[[], bool]) -> bool:
        """Follow a command with all its effects or none; False if it has to wait. One that cannot be used
        changes nothing and is a dead letter, whatever the policy of events is."""
        host, scope = self._host, self._scope
        host.begin(raw)
        scope.begin()
        try:
            followed = follow()
        except TidegateError as error:
            if error.code not in _BAD:
                raise
            scope.take_back()
            self._gates.count_refused(raw)
            host.refuse(raw, error)
        else:
            scope.keep()
            if not followed:
                return False
        scope.passed(raw)
        return True


def _wish(step: GateStep, raw: RawRecord) -> Callable[[], bool]:
    def follow() -> bool:
        step.apply_status(raw)
        return True

    return follow


def _trigger(gate: TaskGate, raw: RawRecord, read: int, ends: Ends) -> Callable[[], bool]:
    return lambda: gate.step.trigger(raw, read, lambda: ends([gate.status])[gate.status])
