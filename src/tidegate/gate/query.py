"""Query a gate from outside its tasks: the statuses in force and the held events, from its changelogs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from heapq import merge, nsmallest
from itertools import groupby, takewhile
from operator import itemgetter
from typing import TypeVar

import msgspec
import pyarrow as pa

from tidegate.clock import Clock
from tidegate.errors import ConfigError, LogError
from tidegate.gate.buffer import stores_of
from tidegate.gate.commands import Commanded, Commander
from tidegate.gate.decide import Known, is_held
from tidegate.gate.formats import GATE_WIDE, TOTALS, Audit, Buffered, GateTotals, Held, InForce
from tidegate.gate.rows import FoldedRows, Rows
from tidegate.log.protocol import Log
from tidegate.topology.manifest import GateEntry, Manifest
from tidegate.types import Offset, TopicPartition

_in_force = msgspec.msgpack.Decoder(InForce)
_buffered = msgspec.msgpack.Decoder(Buffered)
_held = msgspec.msgpack.Decoder(Held)
_audit = msgspec.json.Decoder(Audit)
POLL_SECONDS = 0.2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyState:
    """The state of a key."""

    key: bytes
    status: InForce | None
    buffered: Buffered | None
    paused: bool
    """Whether a status in force holds it."""

    @property
    def held(self) -> bool:
        """Whether its next event would be held."""
        return self.paused or self.buffered is not None

    @property
    def draining(self) -> bool:
        """Whether its held events are going out."""
        return self.buffered is not None and not self.paused


@dataclass(frozen=True, slots=True)
class Changelogs:
    """The changelogs of a gate."""

    status: str
    held: str
    index: str

    @classmethod
    def of(cls, manifest: Manifest, gate: str) -> Changelogs:
        return cls(*(_changelog(manifest, f"{gate}-{what}") for what in ("status", "held", "index")))


class GateQuery:
    """One gate of an app, as of when the query was created."""

    def __init__(
        self, log: Log, manifest: Manifest, name: str, clock: Clock, rows: Rows | None = None
    ) -> None:
        if name not in manifest.gates:
            hint = f"it has: {', '.join(sorted(manifest.gates)) or 'none'}"
            raise ConfigError("no-such-gate", f"app {manifest.app!r} has no gate {name!r}", hint)
        self.name = name
        self.app = manifest.app
        self.entry: GateEntry = manifest.gates[name]
        self.topics = Changelogs.of(manifest, name)
        self._log = log
        self._clock = clock
        self._rows: Rows = rows or FoldedRows(log)
        self._held_key = stores_of(name)[1].key
        self.commander = Commander(log, self.entry, clock)

    def states(self, after: bytes | None = None, prefix: bytes = b"") -> Iterator[KeyState]:
        """Yield all keys that ever had a status or have held events, ordered by their bytes. `after`: only
        those after this key; `prefix`: only those that begin with these bytes."""
        start = after if not prefix or (after is not None and after >= prefix) else prefix
        if start == prefix and start != after and prefix != GATE_WIDE:  # a scan begins behind a key
            first = self.key(prefix)
            if first.status is not None or first.buffered is not None:
                yield first
        parts = (self._keys(number, start) for number in range(self.entry.partitions))
        found = merge(*parts, key=lambda one: one.key)
        yield from takewhile(lambda one: one.key.startswith(prefix), found)

    def waiting_longest(self, prefix: bytes = b"", most: int = 10_000) -> Iterator[KeyState]:
        """Yield the keys with held events, those first whose oldest event was held first. Reads the index of
        all keys that wait, and yields no more than `most`."""
        waiting = (
            (_row(_buffered, row).since, key)
            for number in range(self.entry.partitions)
            for key, row in self._rows.scan(self.topics.index, number, None)
            if key.startswith(prefix)
        )
        for _, key in nsmallest(most, waiting):
            yield self.key(key)

    def key(self, key: bytes) -> KeyState:
        """Return the state of one key."""
        number = self.commander.partition_of(key)
        own = None if key == TOTALS else self._status_of(number, key)
        gate_wide = self._status_of(number, GATE_WIDE)
        return self._state(key, own, self._waiting(number, key), gate_wide)

    def gate_wide(self) -> dict[int, InForce]:
        """Return the gate-wide statuses in force, by partition."""
        found = {number: self._status_of(number, GATE_WIDE) for number in range(self.entry.partitions)}
        return {number: status for number, status in found.items() if status is not None}

    def totals(self) -> GateTotals:
        """Return the totals that its tasks maintain, so that no key is read."""
        return sum((self._totals(number) for number in range(self.entry.partitions)), GateTotals())

    def events(self, key: bytes, limit: int, after: int = -1) -> list[tuple[int, Held]]:
        """Return the held events of a key, oldest first, with their sequence numbers: those after
        this one."""
        number = self.commander.partition_of(key)
        waiting = self._waiting(number, key)
        if waiting is None:
            return []
        first = max(waiting.first, after + 1)
        sequences = range(first, min(waiting.next, first + limit))
        rows = (
            (at, self._rows.get(self.topics.held, number, self._held_key.encode((key, at))))
            for at in sequences
        )
        return [(at, _row(_held, row)) for at, row in rows if row is not None]

    def history(self, key: bytes) -> Iterator[Audit]:
        """Yield the statuses that the gate applied to a key, oldest first."""
        for value in self._rows.history(self.entry.audit, key):
            with suppress(msgspec.DecodeError):  # of another version or another program
                yield _audit.decode(value)

    def marks(self) -> dict[int, Offset]:
        """Return the ends of the status changelog. Take them before you write a status to wait for."""
        partitions = [TopicPartition(self.topics.status, number) for number in range(self.entry.partitions)]
        return {one.partition: end for one, end in self._log.ends(partitions).items()}

    def wait_applied(self, key: bytes, written: Commanded, marks: dict[int, Offset], seconds: float) -> None:
        """Wait until the gate has applied a status that was written after the marks. Raises LogError
        `not-applied` if that takes too long: the status remains written."""
        left = dict(written.epochs)
        starts = {TopicPartition(self.topics.status, number): marks[number] for number in left}
        deadline = time.monotonic() + seconds
        with closing(self._log.reader(starts)) as reader:
            while left:
                if time.monotonic() > deadline:
                    raise LogError(
                        "not-applied",
                        f"the gate did not apply the status within {seconds:g} s; it is written, and will be "
                        "applied",
                        f"check that the app runs: tidegate status {self.app}",
                        retryable=True,
                    )
                for fetched in reader.poll(POLL_SECONDS):
                    number = fetched.partition.partition
                    if number in left and _newest(fetched.batch, key) >= left[number]:
                        del left[number]

    def _keys(self, number: int, after: bytes | None) -> Iterator[KeyState]:
        """Yield the states of one partition by two sorted scans, side by side."""
        topics = self.topics
        statuses = self._rows.scan(topics.status, number, after)
        waiting = self._rows.scan(topics.index, number, after)
        both = merge(
            ((key, status, None) for key, status in statuses if key not in (GATE_WIDE, TOTALS)),
            ((key, None, index) for key, index in waiting),
            key=itemgetter(0),
        )
        gate_wide = self._status_of(number, GATE_WIDE)
        for key, rows in groupby(both, key=itemgetter(0)):
            own: InForce | None = None
            held: Buffered | None = None
            for _, status, index in rows:
                own = own if status is None else _row(_in_force, status)
                held = held if index is None else _row(_buffered, index)
            yield self._state(key, own, held, gate_wide)

    def _totals(self, number: int) -> GateTotals:
        status = self._status_of(number, TOTALS)
        if status is not None and status.totals is not None:
            return status.totals
        gate_wide = self._status_of(number, GATE_WIDE)
        counted = GateTotals(gate_wide=gate_wide is not None and gate_wide.state == "PAUSED")
        for one in self._keys(number, None):  # of a version that kept no totals
            paused = int(one.status is not None and one.status.state == "PAUSED")
            waits = one.buffered
            counted += (
                GateTotals(paused)
                if waits is None
                else GateTotals(paused, 1, waits.count, waits.bytes, waits.since)
            )
        return counted

    def _state(
        self, key: bytes, own: InForce | None, waiting: Buffered | None, gate_wide: InForce | None
    ) -> KeyState:
        return KeyState(key, own, waiting, is_held(Known(own, gate_wide), self._clock.now()))

    def _status_of(self, number: int, key: bytes) -> InForce | None:
        row = self._rows.get(self.topics.status, number, key)
        return None if row is None else _row(_in_force, row)

    def _waiting(self, number: int, key: bytes) -> Buffered | None:
        row = self._rows.get(self.topics.index, number, key)
        return None if row is None else _row(_buffered, row)


def _row(decoder: msgspec.msgpack.Decoder[T], row: bytes) -> T:
    try:
        return decoder.decode(row)
    except msgspec.DecodeError as error:
        raise LogError(
            "bad-changelog",
            f"a changelog of the gate holds an invalid row: {error}",
            "only tidegate may write there",
        ) from error


def _newest(batch: pa.RecordBatch, key: bytes) -> int:
    """Return the newest epoch of a key in a batch of the status changelog; -1 if there is none."""
    rows = zip(batch.column(2).to_pylist(), batch.column(3).to_pylist(), strict=True)
    epochs = (_in_force.decode(value).epoch for of, value in rows if of == key and value is not None)
    return max(epochs, default=-1)


def _changelog(manifest: Manifest, store: str) -> str:
    topic = manifest.stores[store].changelog
    assert topic is not None  # noqa: S101 - the stores of a gate have one
    return topic
