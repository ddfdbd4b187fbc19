"""A gate seen from outside of the tasks: what is in force and what waits, as the changelogs say it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from tidegate.clock import Clock
from tidegate.errors import ConfigError, LogError
from tidegate.gate.buffer import stores_of
from tidegate.gate.commands import Commanded, Commander
from tidegate.gate.decide import Known, is_held
from tidegate.gate.formats import EVERYONE, Audit, Buffered, Held, InForce
from tidegate.log.protocol import Log
from tidegate.log.reads import fold, read_between
from tidegate.log.records import rows_of
from tidegate.topology.manifest import GateEntry, Manifest
from tidegate.types import Offset, TopicPartition

_in_force = msgspec.msgpack.Decoder(InForce)
_buffered = msgspec.msgpack.Decoder(Buffered)
_held = msgspec.msgpack.Decoder(Held)
_audit = msgspec.json.Decoder(Audit)
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class KeyState:
    """What is known of a key."""

    key: bytes
    status: InForce | None
    buffered: Buffered | None
    held: bool
    """Whether its next event would wait."""


class Gate:
    """One gate of an app, by its manifest."""

    def __init__(self, log: Log, manifest: Manifest, name: str, clock: Clock) -> None:
        if name not in manifest.gates:
            hint = f"it has: {', '.join(sorted(manifest.gates)) or 'none'}"
            raise ConfigError("no-such-gate", f"app {manifest.app!r} has no gate {name!r}", hint)
        self.name = name
        self.app = manifest.app
        self.entry: GateEntry = manifest.gates[name]
        self._log = log
        self._clock = clock
        self._held_key = stores_of(name)[1].key
        self._status, self._held, self._index = (
            _changelog(manifest, f"{name}-{what}") for what in ("status", "held", "index")
        )
        self.commander = Commander(log, self.entry, clock)

    def all_keys(self) -> list[KeyState]:
        """All keys that were ever spoken of or have something waiting, by their bytes."""
        found: list[KeyState] = []
        for number in range(self.entry.partitions):
            statuses = self._statuses(number)
            everyone = statuses.pop(EVERYONE, None)
            waiting = self._waiting(number)
            for key in statuses.keys() | waiting.keys():
                own = statuses.get(key)
                held = is_held(Known(own, everyone), self._clock.now())
                found.append(KeyState(key, own, waiting.get(key), held or key in waiting))
        return sorted(found, key=lambda one: one.key)

    def key(self, key: bytes) -> KeyState:
        """What is known of one key."""
        number = self.commander.partition_of(key)
        statuses, waiting = self._statuses(number), self._waiting(number)
        own = statuses.get(key)
        held = is_held(Known(own, statuses.get(EVERYONE)), self._clock.now()) or key in waiting
        return KeyState(key, own, waiting.get(key), held)

    def everyone(self) -> dict[int, InForce]:
        """What is in force for the whole gate, by partition."""
        found = {number: self._statuses(number).get(EVERYONE) for number in range(self.entry.partitions)}
        return {number: status for number, status in found.items() if status is not None}

    def events(self, key: bytes, limit: int, behind: int = -1) -> list[tuple[int, Held]]:
        """The events of a key that wait, oldest first, with their sequence: those behind one."""
        partition = TopicPartition(self._held, self.commander.partition_of(key))
        found: list[tuple[int, Held]] = []
        for stored, (value, _) in fold(self._log, partition).items():
            of, sequence = self._held_key.decode(stored)
            if of == key and sequence > behind and value is not None:
                found.append((sequence, _held.decode(value)))
        return sorted(found, key=lambda one: one[0])[:limit]

    def history(self, key: bytes) -> Iterator[Audit]:
        """What the gate applied to a key, oldest first."""
        for number in range(self._log.describe(self.entry.audit).partitions):
            partition = TopicPartition(self.entry.audit, number)
            start = self._log.describe(self.entry.audit).starts[number]
            for batch in read_between(self._log, partition, start, self._log.ends([partition])[partition]):
                for row in rows_of(batch):
                    if row.key == key and row.value is not None:
                        yield _audit.decode(row.value)

    def marks(self) -> dict[int, Offset]:
        """How far the status changelog goes: to be taken before a wish is written that one waits for."""
        partitions = [TopicPartition(self._status, number) for number in range(self.entry.partitions)]
        return {one.partition: end for one, end in self._log.ends(partitions).items()}

    def wait_applied(self, key: bytes, wished: Commanded, marks: dict[int, Offset], seconds: float) -> None:
        """Until the gate has applied a wish that was written behind the marks. LogError `not-applied` if that
        takes too long: it stays written."""
        left = dict(wished.epochs)
        starts = {TopicPartition(self._status, number): marks[number] for number in left}
        deadline = time.monotonic() + seconds
        with closing(self._log.reader(starts)) as reader:
            while left:
                if time.monotonic() > deadline:
                    raise LogError(
                        "not-applied",
                        f"the gate did not apply it within {seconds:g} s; it is written, and will be",
                        "does the app run? tidegate lag tells",
                        retryable=True,
                    )
                for fetched in reader.poll(POLL_SECONDS):
                    number = fetched.partition.partition
                    if number in left and _newest(fetched.batch, key) >= left[number]:
                        del left[number]

    def _statuses(self, number: int) -> dict[bytes, InForce]:
        rows = fold(self._log, TopicPartition(self._status, number)).items()
        return {key: _in_force.decode(value) for key, (value, _) in rows if value is not None}

    def _waiting(self, number: int) -> dict[bytes, Buffered]:
        rows = fold(self._log, TopicPartition(self._index, number)).items()
        return {key: _buffered.decode(value) for key, (value, _) in rows if value is not None}


def _newest(batch: pa.RecordBatch, key: bytes) -> int:
    """The newest epoch of a key in a batch of the status changelog; -1 if there is none."""
    rows = zip(batch.column(2).to_pylist(), batch.column(3).to_pylist(), strict=True)
    epochs = (_in_force.decode(value).epoch for of, value in rows if of == key and value is not None)
    return max(epochs, default=-1)


def _changelog(manifest: Manifest, store: str) -> str:
    topic = manifest.stores[store].changelog
    assert topic is not None  # noqa: S101 - the stores of a gate have one
    return topic
