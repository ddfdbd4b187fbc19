"""A gate in a test: pause and resume its keys, and see what it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidegate.clock import Clock
from tidegate.gate.formats import Audit, Held, InForce, Trigger
from tidegate.gate.query import GateQuery
from tidegate.gate.step import Counts
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.runtime.driver.run import Run
from tidegate.runtime.task.task import StreamTask
from tidegate.testing.views import all_records
from tidegate.topology.node import NodeKind
from tidegate.types import TopicPartition

_audit = msgspec.json.Decoder(Audit)


class GateView:
    """One gate of an app in a driver, as of the last commit. Keys are those of its events."""

    def __init__(
        self, name: str, run: Run, log: Log, clock: Clock, tasks: Callable[[], list[StreamTask]]
    ) -> None:
        self._name = name
        self._manifest = run.manifest
        self._log = log
        self._clock = clock
        self._tasks = tasks
        assert self._gate.name == name  # noqa: S101 - a missing one raises by name
        nodes = run.context.topology.nodes.values()
        [key] = [node.key for node in nodes if node.kind is NodeKind.GATE and node.name == name]
        assert key is not None  # noqa: S101 - set by the dsl
        self._encode = key.encode

    @property
    def _gate(self) -> GateQuery:
        return GateQuery(self._log, self._manifest, self._name, self._clock)

    def pause(self, key: Any, *, reason: str = "", actor: str = "test", expires_at: int | None = None) -> int:
        """Request the pause; the next run applies it. Returns its epoch."""
        options: dict[str, Any] = {"actor": actor, "reason": reason, "expires_at": expires_at}
        return self._gate.commander.pause(self._encode(key), **options).epoch

    def resume(self, key: Any, *, reason: str = "", actor: str = "test") -> int:
        return self._gate.commander.resume(self._encode(key), actor=actor, reason=reason).epoch

    def pause_all(
        self, *, reason: str = "", actor: str = "test", expires_at: int | None = None
    ) -> dict[int, int]:
        """Pause the whole gate. Returns the epoch in each partition."""
        options: dict[str, Any] = {"actor": actor, "reason": reason, "expires_at": expires_at}
        return dict(self._gate.commander.pause_all(**options).epochs)

    def resume_all(self, *, reason: str = "", actor: str = "test") -> dict[int, int]:
        return dict(self._gate.commander.resume_all(actor=actor, reason=reason).epochs)

    def trigger(self, key: Any, epoch: int, *, reason: str = "", actor: str = "test") -> None:
        """End the pause of an epoch by a trigger, as other services do."""
        self.write("trigger", key, msgspec.json.encode(Trigger(epoch, actor, reason)))

    def write(self, what: str, key: Any, value: bytes | None) -> int:
        """Append a raw record to the status or the trigger topic. Returns its offset."""
        encoded, entry = self._encode(key), self._gate.entry
        topic = entry.status if what == "status" else entry.trigger
        partition = TopicPartition(topic, self._gate.commander.partition_of(encoded))
        return int(self._log.append(partition, to_batch([Row(encoded, value, self._clock.now())])))

    def held(self, key: Any) -> int:
        """How many events of the key are held."""
        buffered = self._gate.key(self._encode(key)).buffered
        return 0 if buffered is None else buffered.count

    def events(self, key: Any) -> list[Held]:
        """The held events of the key, in order."""
        return [event for _, event in self._gate.events(self._encode(key), self.held(key))]

    def status(self, key: Any) -> InForce | None:
        """What is in force for the key itself."""
        return self._gate.key(self._encode(key)).status

    def gate_wide(self) -> InForce | None:
        """The gate-wide status in force."""
        return next(iter(self._gate.gate_wide().values()), None)

    def audit(self) -> list[Audit]:
        """What the gate applied, partition by partition."""
        records = all_records(self._log, self._gate.entry.audit)
        return [_audit.decode(record.value or b"") for record in records]

    @property
    def stale(self) -> int:
        """How many commands were ignored as too old, since the last start."""
        return sum(counts.stale for counts in self._counts())

    @property
    def beyond(self) -> int:
        """How many events came when `max_held` was reached, since the last start."""
        return sum(counts.beyond for counts in self._counts())

    def _counts(self) -> list[Counts]:
        gates = [gate for task in self._tasks() for gate in task.gates.all]
        return [gate.step.counts for gate in gates if gate.step.name == self._name]
