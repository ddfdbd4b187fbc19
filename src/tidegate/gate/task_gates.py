"""The gates of a task, and the handlers of their events. `follow` applies their commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.gate.formats import GateNumbers
from tidegate.gate.host import GateHost
from tidegate.gate.step import GateStep
from tidegate.log.records import RawRecord, own_headers
from tidegate.record import Record
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import GateEntry
from tidegate.topology.node import Node, NodeKind
from tidegate.types import TopicPartition

R = Record[Any, Any]


@dataclass(frozen=True, slots=True)
class TaskGate:
    """A gate, and the partitions of its commands."""

    step: GateStep
    admitted: Node
    status: TopicPartition
    trigger: TopicPartition


class TaskGates:
    """The gates of one task, in the order of the topology."""

    def __init__(self, topology: Topology, entries: Mapping[str, GateEntry], host: GateHost) -> None:
        self._topology = topology
        self._entries = entries
        self._host = host
        self.all: list[TaskGate] = []

    def __bool__(self) -> bool:
        return bool(self.all)

    def handler(self, node: Node) -> Callable[[R], None]:
        """Return the handler of a gate for events."""
        children = self._topology.children(node.id)
        [admitted] = [child for child in children if child.kind is NodeKind.ADMITTED]
        [audit] = [child for child in children if child.kind is NodeKind.SINK]
        host = self._host
        step = GateStep(node, host, admitted, audit, self._entries[node.name].partitions)
        topics: Mapping[str, str] = node.options["topics"]
        number = host.partition
        status, trigger = TopicPartition(topics["status"], number), TopicPartition(topics["trigger"], number)
        self.all.append(TaskGate(step, admitted, status, trigger))
        key_serde, value_serde = node.key, node.value

        def as_read(_: R) -> None:
            raw = host.record()
            step.event(raw.key, raw.value, raw.timestamp, own_headers(raw), raw)

        def encoded(record: R) -> None:
            assert key_serde is not None  # noqa: S101 - set by the dsl
            assert value_serde is not None  # noqa: S101 - set by the dsl
            key = None if record.key is None else key_serde.encode(record.key)
            value = None if record.value is None else value_serde.encode(record.value)
            step.event(key, value, record.timestamp, record.headers, host.record())

        return as_read if node.options["unchanged"] else encoded

    def count_refused(self, raw: RawRecord) -> None:
        """Count an invalid command."""
        for gate in self.all:
            gate.step.counts.refused += raw.partition in (gate.status, gate.trigger)

    def commands(self) -> list[TopicPartition]:
        """Return the partitions of all commands."""
        return [partition for gate in self.all for partition in (gate.status, gate.trigger)]

    def work(self) -> bool:
        """End expired pauses and drain resumed keys. Returns whether anything changed."""
        return sum(gate.step.work() for gate in self.all) > 0

    def busy(self) -> bool:
        """Return whether held events may go out although no event arrives."""
        return any(gate.step.ready for gate in self.all)

    def begin_record(self) -> None:
        for gate in self.all:
            gate.step.begin_record()

    def roll_back(self) -> None:
        for gate in self.all:
            gate.step.roll_back()

    def before_commit(self) -> None:
        for gate in self.all:
            gate.step.before_commit()

    def committed(self) -> None:
        for gate in self.all:
            gate.step.committed()


def gate_numbers(tasks: Iterable[TaskGates]) -> dict[str, GateNumbers]:
    """Return the numbers of the gates of these tasks, by name."""
    steps: dict[str, list[GateStep]] = {}
    for gates in tasks:
        for gate in gates.all:
            steps.setdefault(gate.step.name, []).append(gate.step)
    return {
        name: GateNumbers(
            paused=sum(step.paused for step in gate_steps),
            gate_wide=any(step.gate_wide_paused for step in gate_steps),
            held=sum(step.buffer.count for step in gate_steps),
            bytes=sum(step.buffer.size for step in gate_steps),
            oldest=min((at for step in gate_steps if (at := step.buffer.oldest) is not None), default=None),
            drained=sum(step.counts.drained for step in gate_steps),
            stale=sum(step.counts.stale for step in gate_steps),
            refused=sum(step.counts.refused for step in gate_steps),
            beyond=sum(step.counts.beyond for step in gate_steps),
        )
        for name, gate_steps in steps.items()
    }
