"""A gate in a test: pause and resume its keys, and see what it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.gate.commands import Commander
from tidegate.gate.formats import EVERYONE, Audit, Held, InForce, Trigger
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.runtime.start import Run
from tidegate.runtime.task import StreamTask
from tidegate.testing.views import all_records
from tidegate.topology.node import Kind
from tidegate.types import TopicPartition


class GateView:
    """One gate of an app in a driver. Keys are those of its events."""

    def __init__(
        self, name: str, run: Run, log: Log, clock: Clock, tasks: Callable[[], list[StreamTask]]
    ) -> None:
        nodes = [node for node in run.setting.topology.nodes.values() if node.kind is Kind.GATE]
        if name not in run.manifest.gates:
            known = ", ".join(node.name for node in nodes) or "none"
            raise ConfigError("no-such-gate", f"the app has no gate {name!r}", f"it has: {known}")
        self._name = name
        self._log = log
        self._clock = clock
        self._tasks = tasks
        self._entry = run.manifest.gates[name]
        self._commander = Commander(log, self._entry, clock)
        [node] = [node for node in nodes if node.name == name]
        assert node.key is not None  # noqa: S101 - set by the dsl
        self._key = node.key
        self._builders = {builder.name: builder for builder in node.stores}

    def pause(self, key: Any, *, reason: str = "", actor: str = "test", expires_at: int | None = None) -> int:
        """Wish for it; the next run applies it. The epoch."""
        encoded = self._key.encode(key)
        return self._commander.pause(encoded, actor=actor, reason=reason, expires_at=expires_at).epoch

    def resume(self, key: Any, *, reason: str = "", actor: str = "test") -> int:
        return self._commander.resume(self._key.encode(key), actor=actor, reason=reason).epoch

    def pause_everyone(
        self, *, reason: str = "", actor: str = "test", expires_at: int | None = None
    ) -> dict[int, int]:
        """The epoch in each partition."""
        return dict(self._commander.pause_everyone(actor=actor, reason=reason, expires_at=expires_at).epochs)

    def resume_everyone(self, *, reason: str = "", actor: str = "test") -> dict[int, int]:
        return dict(self._commander.resume_everyone(actor=actor, reason=reason).epochs)

    def trigger(self, key: Any, epoch: int, *, reason: str = "", actor: str = "test") -> None:
        """End the pause of an epoch, as services do that only know the topics."""
        value = msgspec.json.encode(Trigger(epoch, actor, reason))
        self.write("trigger", key, value)

    def write(self, what: str, key: Any, value: bytes | None) -> int:
        """A record to the status or the trigger topic, as it is. Its offset."""
        encoded = self._key.encode(key)
        topic = self._entry.status if what == "status" else self._entry.trigger
        partition = TopicPartition(topic, self._commander.partition_of(encoded))
        return int(self._log.append(partition, to_batch([Row(encoded, value, self._clock.now())])))

    def held(self, key: Any) -> int:
        """How many events of the key wait. Run first."""
        return sum(gate.step.buffer.held(self._key.encode(key)) for gate in self._gates())

    def events(self, key: Any) -> list[Held]:
        """The events of the key that wait, in their order. Run first."""
        encoded = self._key.encode(key)
        found = []
        for task in self._tasks():
            if f"{self._name}-held" in {builder.name for builder in task.state.builders()}:
                rows = task.state.store(self._builders[f"{self._name}-held"])
                found += [event for (of, _), event in rows.all() if of == encoded]
        return found

    def status(self, key: Any) -> InForce | None:
        """What is in force for the key itself. Run first."""
        return self._in_force(self._key.encode(key))

    def everyone(self) -> InForce | None:
        """What is in force for everyone. Run first."""
        return self._in_force(EVERYONE)

    def audit(self) -> list[Audit]:
        """What the gate applied, partition by partition."""
        records = all_records(self._log, self._entry.audit)
        return [msgspec.json.decode(record.value or b"", type=Audit) for record in records]

    @property
    def stale(self) -> int:
        """Commands that were too old when they came, since the last start."""
        return sum(gate.step.counts.stale for gate in self._gates())

    @property
    def beyond(self) -> int:
        """Events that came when as many waited as should, since the last start."""
        return sum(gate.step.counts.beyond for gate in self._gates())

    def _in_force(self, key: bytes) -> InForce | None:
        name = f"{self._name}-status"
        for task in self._tasks():
            if name in {builder.name for builder in task.state.builders()}:
                found: InForce | None = task.state.store(self._builders[name]).get(key)
                if found is not None:
                    return found
        return None

    def _gates(self) -> list[Any]:
        return [gate for task in self._tasks() for gate in task.gates.all if gate.step.name == self._name]
