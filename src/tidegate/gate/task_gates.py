"""The gates of a task. Their commands come before records: wishes first, then triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.errors import TidegateError
from tidegate.gate.step import GateStep
from tidegate.log.records import RawRecord, own_headers
from tidegate.record import Record
from tidegate.runtime.on_error import translated_errors
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.step import R
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.task.merge import Merge
from tidegate.runtime.topics.status import GateNumbers
from tidegate.state.builder import StoreBuilder
from tidegate.state.manager import StateManager
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import GateEntry
from tidegate.topology.node import Node, NodeKind
from tidegate.types import TopicPartition

_BAD = {"bad-command", "bad-epoch", "bad-key", "null-key", "wrong-partition"}


class GateTask(Protocol):
    """What gates need of their task."""

    @property
    def partition(self) -> int: ...

    @property
    def stream_time(self) -> int: ...

    @property
    def state(self) -> StateManager: ...

    def now(self) -> int: ...

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None: ...

    def begin(self) -> None: ...

    def take_back(self) -> None: ...

    def keep(self) -> None: ...

    def passed(self, raw: RawRecord) -> None: ...


class _Host:
    """The task as a gate sees it."""

    def __init__(self, task: GateTask, sender: Sender) -> None:
        self._task = task
        self._sender = sender
        self.now, self.store, self.emit = task.now, task.store, task.emit
        self.emit_from, self.place = sender.emit_from, sender.where

    @property
    def stream_time(self) -> int:
        return self._task.stream_time

    def dead_letter(self, raw: RawRecord, error: TidegateError) -> None:
        self._sender.dead_letter(raw, error, self._task.now())

    def damaged(self) -> None:
        self._task.state.environment.damaged()


@dataclass(frozen=True, slots=True)
class TaskGate:
    """A gate, and where its commands come from."""

    step: GateStep
    admitted: Node
    status: TopicPartition
    trigger: TopicPartition


class TaskGates:
    """Of one task, in the order of the topology."""

    def __init__(
        self,
        topology: Topology,
        entries: Mapping[str, GateEntry],
        task: GateTask,
        sender: Sender,
        generation: int,
    ) -> None:
        self._topology = topology
        self._entries = entries
        self._generation = generation
        self._task = task
        self._sender = sender
        self.all: list[TaskGate] = []

    def __bool__(self) -> bool:
        return bool(self.all)

    def handler(self, node: Node) -> Handler:
        """What a gate does with an event."""
        children = self._topology.children(node.id)
        [admitted] = [child for child in children if child.kind is NodeKind.ADMITTED]
        [audit] = [child for child in children if child.kind is NodeKind.SINK]
        host = _Host(self._task, self._sender)
        step = GateStep(node, host, admitted, audit, self._entries[node.name].partitions)
        topics: Mapping[str, str] = node.options["topics"]
        number = self._task.partition
        status, trigger = TopicPartition(topics["status"], number), TopicPartition(topics["trigger"], number)
        self.all.append(TaskGate(step, admitted, status, trigger))
        sender, key_serde, value_serde = self._sender, node.key, node.value

        def as_read(_: R) -> None:
            raw = sender.in_work()
            step.event(raw.key, raw.value, raw.timestamp, own_headers(raw), raw)

        def encoded(record: R) -> None:
            assert key_serde is not None  # noqa: S101 - set by the dsl
            assert value_serde is not None  # noqa: S101 - set by the dsl
            key = None if record.key is None else key_serde.encode(record.key)
            value = None if record.value is None else value_serde.encode(record.value)
            step.event(key, value, record.timestamp, record.headers, sender.in_work())

        return as_read if node.options["unchanged"] else encoded

    def follow(self, merge: Merge, end_of: Callable[[TopicPartition], int]) -> None:
        """Take all commands that can be taken. `end_of` asks how far a partition goes."""
        for gate in self.all:
            while (raw := merge.command(gate.status)) is not None:
                self._try(raw, _wish(gate.step, raw))
                merge.take_command(gate.status)
            while (raw := merge.command(gate.trigger)) is not None:
                read = merge.read_to(gate.status)
                if not self._try(raw, _trigger(gate, raw, read, end_of)):
                    break
                merge.take_command(gate.trigger)

    def _try(self, raw: RawRecord, follow: Callable[[], bool]) -> bool:
        """Follow a command with all its effects or none; False if it has to wait. One that nobody can use
        changes nothing and is a dead letter, whatever the policy of events is."""
        task, sender = self._task, self._sender
        sender.record, sender.place = raw, ""
        task.begin()
        try:
            followed = follow()
        except TidegateError as error:
            if error.code not in _BAD:
                raise
            task.take_back()
            self.refuse(raw)
            sender.dead_letter(raw, translated_errors(error, raw, self._generation), task.now())
        else:
            task.keep()
            if not followed:
                return False
        task.passed(raw)
        return True

    def refuse(self, raw: RawRecord) -> None:
        """Count a command that nobody can use."""
        for gate in self.all:
            gate.step.counts.refused += raw.partition in (gate.status, gate.trigger)

    def commands(self) -> list[TopicPartition]:
        """Where they all come from."""
        return [partition for gate in self.all for partition in (gate.status, gate.trigger)]

    def work(self) -> bool:
        """What they do by themselves. Whether anything came of it."""
        return sum(gate.step.work() for gate in self.all) > 0

    def busy(self) -> bool:
        """Whether events may go out although none came in."""
        return any(gate.step.ready for gate in self.all)

    def begin_record(self) -> None:
        for gate in self.all:
            gate.step.begin_record()

    def take_back(self) -> None:
        for gate in self.all:
            gate.step.take_back()

    def before_commit(self) -> None:
        for gate in self.all:
            gate.step.before_commit()

    def committed(self) -> None:
        for gate in self.all:
            gate.step.committed()


def gate_numbers(tasks: Iterable[TaskGates]) -> dict[str, GateNumbers]:
    """How the gates of these tasks are doing, by name."""
    steps: dict[str, list[GateStep]] = {}
    for gates in tasks:
        for gate in gates.all:
            steps.setdefault(gate.step.name, []).append(gate.step)
    return {
        name: GateNumbers(
            paused=sum(step.paused for step in mine),
            everyone=any(step.everyone_paused for step in mine),
            held=sum(step.buffer.count for step in mine),
            bytes=sum(step.buffer.size for step in mine),
            oldest=min((at for step in mine if (at := step.buffer.oldest) is not None), default=None),
            drained=sum(step.counts.drained for step in mine),
            stale=sum(step.counts.stale for step in mine),
            refused=sum(step.counts.refused for step in mine),
            beyond=sum(step.counts.beyond for step in mine),
        )
        for name, mine in steps.items()
    }


def _wish(step: GateStep, raw: RawRecord) -> Callable[[], bool]:
    def follow() -> bool:
        step.wish(raw)
        return True

    return follow


def _trigger(
    gate: TaskGate, raw: RawRecord, read: int, end_of: Callable[[TopicPartition], int]
) -> Callable[[], bool]:
    return lambda: gate.step.trigger(raw, read, lambda: end_of(gate.status))
