"""Pause and resume: write requested statuses to the status topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.gate.formats import GATE_WIDE, LONGEST_TEXT, RequestedStatus
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import LATEST_TIMESTAMP
from tidegate.topology.manifest import GateEntry
from tidegate.types import TopicPartition

LONGEST_KEY = 1 << 20


@dataclass(frozen=True, slots=True)
class Commanded:
    """A requested status that is written to the log: its epoch in each partition."""

    epochs: Mapping[int, int]

    @property
    def epoch(self) -> int:
        """The epoch of a status of a single key."""
        [epoch] = self.epochs.values()
        return epoch


class Commander:
    """Writes requested statuses of one gate. Returns when they are durable; the gate applies them later."""

    def __init__(self, log: Log, gate: GateEntry, clock: Clock) -> None:
        self._log = log
        self._gate = gate
        self._clock = clock

    def pause(
        self, key: bytes, *, actor: str = "", reason: str = "", expires_at: int | None = None
    ) -> Commanded:
        """Pause a key: its events are held from now on."""
        return self._write(key, self._pausing(actor, reason, expires_at))

    def resume(self, key: bytes, *, actor: str = "", reason: str = "") -> Commanded:
        """Resume a key: held events go out first, then new ones."""
        return self._write(key, RequestedStatus("ACTIVE", actor, reason))

    def pause_all(self, *, actor: str = "", reason: str = "", expires_at: int | None = None) -> Commanded:
        """Pause all keys, except those that are resumed individually after this."""
        return self._write_everywhere(self._pausing(actor, reason, expires_at))

    def resume_all(self, *, actor: str = "", reason: str = "") -> Commanded:
        """End the gate-wide pause; keys that were paused individually stay paused."""
        return self._write_everywhere(RequestedStatus("ACTIVE", actor, reason))

    def partition_of(self, key: bytes) -> int:
        """Return the partition of the key's events and statuses."""
        return partition_for(key, self._gate.partitions)

    def _pausing(self, actor: str, reason: str, expires_at: int | None) -> RequestedStatus:
        if expires_at is not None and expires_at <= self._clock.now():
            raise ConfigError("bad-expiry", "the pause would be over already", "use a time in the future")
        if expires_at is not None and expires_at > LATEST_TIMESTAMP:
            raise ConfigError(
                "bad-expiry",
                "the pause would end after the year 9999",
                "leave the end out: it lasts until resumed",
            )
        return RequestedStatus("PAUSED", actor, reason, expires_at)

    def _write_everywhere(self, status: RequestedStatus) -> Commanded:
        epochs = {number: self._append(number, GATE_WIDE, status) for number in range(self._gate.partitions)}
        return Commanded(epochs)

    def _write(self, key: bytes, status: RequestedStatus) -> Commanded:
        if key == GATE_WIDE:
            raise ConfigError(
                "bad-key", "this key is reserved for gate-wide pauses", "pause the whole gate instead"
            )
        check_key(key)
        number = self.partition_of(key)
        return Commanded({number: self._append(number, key, status)})

    def _append(self, number: int, key: bytes, status: RequestedStatus) -> int:
        if len(status.actor) > LONGEST_TEXT or len(status.reason) > LONGEST_TEXT:
            raise ConfigError(
                "too-long", "the actor or the reason is too long", f"use at most {LONGEST_TEXT} characters"
            )
        row = Row(key, msgspec.json.encode(status), self._clock.now())
        return int(self._log.append(TopicPartition(self._gate.status, number), to_batch([row])))


def check_key(key: bytes) -> None:
    """Raise ConfigError `bad-key` if a key cannot be paused individually: the empty key, and keys above 1
    MiB."""
    if not key or len(key) > LONGEST_KEY:
        raise ConfigError("bad-key", f"a key of {len(key)} bytes", f"use 1 to {LONGEST_KEY} bytes")
