"""The gate in a task: calls `decide`, keeps the statuses in force and the held events, and drains resumed
keys."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidegate.errors import LogError, SerdeError
from tidegate.gate.buffer import SPARE, Buffer
from tidegate.gate.commands import check_key
from tidegate.gate.decide import (
    Decision,
    EventReceived,
    Known,
    StatusRequested,
    Tick,
    Triggered,
    decide,
    is_held,
)
from tidegate.gate.formats import (
    GATE_WIDE,
    TOTALS,
    Audit,
    GateTotals,
    Held,
    InForce,
    RequestedStatus,
    Trigger,
    decode,
)
from tidegate.gate.host import GateHost
from tidegate.log.partitioner import partition_for
from tidegate.log.records import RawRecord
from tidegate.record import Record
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

AT_ONCE = 100
"""How many events of one key are drained in a row, while other keys wait."""

OwnHeaders = tuple[tuple[str, bytes | None], ...]


@dataclass(slots=True)
class Counts:
    """Counts since the task started."""

    drained: int = 0
    stale: int = 0
    refused: int = 0
    beyond: int = 0
    """Events that arrived when `max_held` was reached for their key."""


class GateStep:
    """One gate in one task."""

    def __init__(self, node: Node, host: GateHost, admitted: Node, audit: Node, partitions: int) -> None:
        self.name = node.name
        self.counts = Counts()
        self._host = host
        self._partitions = partitions
        self._admitted = admitted
        self._audit = audit
        self._max_held: int | None = node.options["max_held"]
        self._dead_letters: bool = node.options["on_full"] == "dead-letter"
        self._chunk: int = node.options["drain_chunk"]
        self._left = self._chunk
        self._status, rows, index = (host.store(builder) for builder in node.stores)
        self._buffer = Buffer(rows, index, host.damaged)
        self._gate_wide: InForce | None = None
        self._paused: dict[bytes, InForce] = {}
        self._ends: list[tuple[int, bytes]] = []
        self._ready: dict[bytes, None] = {}
        self._undo: list[Callable[[], object]] = []
        self._changed = False
        for key, status in self._status.all():
            if key != TOTALS:
                self._remember(key, status)
        self._find_ready()

    # --- events ---------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether every event passes."""
        return not self._paused and not self._buffer.keys and not self.gate_wide_paused

    def blocks(self, key: bytes | None) -> bool:
        """Return whether events of the key may have to be held; those of all other keys pass."""
        if key is None:
            return False
        return key in self._paused or key in self._buffer or self.gate_wide_paused

    def event(
        self, key: bytes | None, value: bytes | None, timestamp: int, headers: OwnHeaders, raw: RawRecord
    ) -> None:
        """Pass an event on, or hold it."""
        if key is not None and self.blocks(key):
            self._expire(key)
            known = self._known(key)
            if decide(known, EventReceived(), self._host.now()) is Decision.HELD:
                host = self._host
                held = Held(value, timestamp, host.origin(), host.stream_time, headers, host.now())
                self._hold(key, held, raw)
                return
        self._host.emit(self._admitted, key, value, Record(key, value, timestamp, headers))

    def _hold(self, key: bytes, event: Held, raw: RawRecord) -> None:
        if self._max_held is not None and self._buffer.held(key) >= self._max_held:
            self.counts.beyond += 1
            if self._dead_letters:
                error = LogError(
                    "gate-full",
                    f"gate {self.name!r} holds {self._max_held} events of this key",
                    "resume the key, or raise max_held",
                )
                self._host.dead_letter(raw, error)
                return
        before = self._buffer.keys.get(key)
        self._changed = True
        self._buffer.add(key, event)
        self._undo.append(lambda: self._buffer.reset(key, before))

    # --- commands -------------------------------------------------------------------------------------

    def apply_status(self, raw: RawRecord) -> None:
        """Apply a record of the status topic. A deleted row means ACTIVE."""
        if raw.key is None:
            raise SerdeError("null-key", "a status without a key", "use the key of the events as its key")
        self._check(raw.key, raw.partition)
        requested = RequestedStatus("ACTIVE") if raw.value is None else decode(RequestedStatus, raw.value)
        own = self._status.get(raw.key)
        found = decide(Known(own), StatusRequested(requested, raw.offset), self._host.now())
        self._follow(raw.key, found)

    def trigger(self, raw: RawRecord, read: int, read_end: Callable[[], int]) -> bool:
        """Apply a record of the trigger topic. Returns False if it has to wait until more of the status
        partition was read; `read_end` returns the end of that partition now."""
        if raw.key is None or raw.value is None:
            raise SerdeError(
                "bad-command", "a trigger without a key or a value", "docs/gates.md has the format"
            )
        self._check(raw.key, raw.partition)
        trigger = decode(Trigger, raw.value)
        own = self._status.get(raw.key)
        end = read_end() if trigger.epoch >= read else read
        found = decide(Known(own), Triggered(trigger, read, end), self._host.now())
        if found is Decision.NOT_YET:
            return False
        if found is Decision.BAD:
            raise SerdeError(
                "bad-epoch",
                f"a trigger for epoch {trigger.epoch}, which is not an applied status of this key",
                "the epoch is the offset that the status record was acknowledged with",
            )
        self._follow(raw.key, found)
        return True

    def _check(self, key: bytes, at: TopicPartition) -> None:
        """Raise unless the key is one that tools can name, and the command is in the partition of the key's
        events."""
        if key == GATE_WIDE:
            return
        check_key(key)
        home = partition_for(key, self._partitions)
        if home != at.partition:
            raise SerdeError(
                "wrong-partition",
                f"a record of partition {at.partition} for a key that belongs to partition {home}",
                "use the partitioner of Kafka's Java client; in librdkafka: partitioner=murmur2_random",
            )

    def _follow(self, key: bytes, found: Decision | InForce) -> None:
        if isinstance(found, InForce):
            self._apply(key, found)
        else:
            self.counts.stale += 1

    def _apply(self, key: bytes, status: InForce) -> None:
        host = self._host
        self._changed = True
        self._status.put(key, status)
        before, gate_wide = self._paused.get(key), self._gate_wide
        self._undo.append(lambda: self._reset(key, before, gate_wide))
        self._remember(key, status)
        held = self._buffer.count if key == GATE_WIDE else self._buffer.held(key)
        audit = Audit(gate=self.name, gate_wide=key == GATE_WIDE, held=held, **status.shown())
        value = msgspec.json.encode(audit)
        host.emit(self._audit, key, value, Record(key, value, status.at))
        if key == GATE_WIDE:
            self._find_ready()
        elif key in self._buffer:
            self._ready[key] = None

    def _remember(self, key: bytes, status: InForce) -> None:
        if key == GATE_WIDE:
            self._gate_wide = status
        elif status.state == "PAUSED":
            self._paused[key] = status
        else:
            self._paused.pop(key, None)
        if status.state == "PAUSED" and status.expires_at is not None:
            heapq.heappush(self._ends, (status.expires_at, key))
            if len(self._ends) > 2 * len(self._paused) + SPARE:
                self._ends = self._in_heap()

    def _in_heap(self) -> list[tuple[int, bytes]]:
        """Return a heap of the ends of pauses, without pauses that are over or were replaced."""
        gate_wide = [] if self._gate_wide is None else [(GATE_WIDE, self._gate_wide)]
        pauses = [one for one in (*self._paused.items(), *gate_wide) if one[1].state == "PAUSED"]
        ends = [(status.expires_at, key) for key, status in pauses if status.expires_at is not None]
        heapq.heapify(ends)
        return ends

    def _reset(self, key: bytes, before: InForce | None, gate_wide: InForce | None) -> None:
        self._gate_wide = gate_wide
        self._paused.pop(key, None)
        before = gate_wide if key == GATE_WIDE else before
        if before is not None:
            self._remember(key, before)

    # --- background work ------------------------------------------------------------------------------

    def work(self) -> bool:
        """End expired pauses, and drain resumed keys, up to the limit of a commit. Returns whether anything
        changed."""
        return self._expire_all() | self._drain()

    @property
    def ready(self) -> bool:
        """Whether held events may go out."""
        return bool(self._ready)

    def before_commit(self) -> None:
        """Write the totals as the last row of a commit to the status store: a query finds them at the end of
        its changelog, however many keys there are."""
        if self._changed:
            self._status.put(TOTALS, InForce("ACTIVE", 0, self._host.now(), totals=self.totals()))

    def committed(self) -> None:
        """Called after a commit: the limit starts over, and nothing before it can be rolled back."""
        self._changed = False
        self._left = self._chunk
        self._undo.clear()

    def begin_record(self) -> None:
        self._undo.clear()

    def roll_back(self) -> None:
        """Undo what was kept in memory since `begin_record`; the stores roll back on their own."""
        while self._undo:
            self._undo.pop()()

    def _expire_all(self) -> bool:
        now, moved = self._host.now(), False
        while self._ends and self._ends[0][0] <= now:
            moved |= self._expire(heapq.heappop(self._ends)[1])
        return moved

    def _expire(self, key: bytes) -> bool:
        own = self._gate_wide if key == GATE_WIDE else self._paused.get(key)
        found = decide(Known(own), Tick(), self._host.now())
        if isinstance(found, InForce):
            self._apply(key, found)
            return True
        return False

    def _drain(self) -> bool:
        before: int = self._left
        while self._ready and self._left > 0:
            key = next(iter(self._ready))
            del self._ready[key]
            if key not in self._buffer or is_held(self._known(key), self._host.now()):
                continue
            for event in self._buffer.take(key, min(self._left, AT_ONCE)):
                self._host.emit_held(self._admitted, key, event)
                self._changed = True
                self._left -= 1
                self.counts.drained += 1
            if key in self._buffer:
                self._ready[key] = None
        return bool(self._left < before)

    def _find_ready(self) -> None:
        now = self._host.now()
        self._ready |= {key: None for key in self._buffer.keys if not is_held(self._known(key), now)}

    def _known(self, key: bytes) -> Known:
        own = self._paused.get(key)
        if own is None and self.gate_wide_paused and key != TOTALS:
            own = self._status.get(key)
        return Known(own, self._gate_wide, key in self._buffer)

    # --- numbers --------------------------------------------------------------------------------------

    def totals(self) -> GateTotals:
        """Return the current totals."""
        buffer = self._buffer
        return GateTotals(
            self.paused, len(buffer.keys), buffer.count, buffer.size, buffer.oldest, self.gate_wide_paused
        )

    @property
    def paused(self) -> int:
        """The number of keys with a pause of their own."""
        return len(self._paused)

    @property
    def gate_wide_paused(self) -> bool:
        return self._gate_wide is not None and self._gate_wide.state == "PAUSED"

    @property
    def buffer(self) -> Buffer:
        return self._buffer
