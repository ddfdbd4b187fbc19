"""How the slots of an app are doing, folded from the records of its status topic.

    starting ── numbers ──> running, restoring ── nothing for 3 s ──> silent
                                  │ ^                                    │
       stopped, failed <──────────┘ └────────── numbers, landing <───────┘

A slot publishes its numbers once a second. One that was killed publishes nothing more: its last numbers show
what it has done, not what it does now.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from tidegate.runtime.driver.slot_overview import SILENT_SECONDS
from tidegate.runtime.topics.status import (
    Ended,
    Failure,
    Landing,
    Numbers,
    Recalculating,
    Status,
    Warned,
)

KEPT_WARNINGS = 20
STATES = ("running", "restoring", "starting", "silent", "failed", "stopped")


@dataclass(slots=True)
class SlotStatus:
    """One slot, by what it published."""

    epoch: int = 0
    attempt: int = 0
    host: str = ""
    numbers: Numbers | None = None
    """The newest: of this job once it is at work, else of the job before it."""
    reported_state: str = "starting"
    heard: float = -math.inf
    """When it last published anything, by `time.monotonic` of this process."""
    pid: int | None = None
    """The worker process that runs its job, on `host`."""

    def state(self, now: float) -> str:
        """The state at a time, one of STATES."""
        if self.reported_state in ("failed", "stopped"):
            return self.reported_state
        return "silent" if now - self.heard > SILENT_SECONDS else self.reported_state

    def tasks(self, now: float, planned: int) -> dict[str, int]:
        """The number of its stream tasks in each state."""
        state = self.state(now)
        counts: dict[str, int] = dict.fromkeys(STATES, 0)
        if state in ("running", "restoring") and self.numbers is not None:
            counts |= {"running": self.numbers.running, "restoring": self.numbers.restoring}
        else:
            counts[state] = planned
        return counts


@dataclass(slots=True)
class SlotStatuses:
    """All slots of an app; stages have numbers below 0."""

    slots: dict[int, SlotStatus] = field(default_factory=dict)
    warnings: deque[Warned] = field(default_factory=lambda: deque(maxlen=KEPT_WARNINGS))
    warned: Counter[str] = field(default_factory=Counter)
    """Warnings by code, since this process started to follow."""
    failures: Counter[str] = field(default_factory=Counter)
    """Errors that ended jobs of slots, by code, since this process started to follow."""
    last_failure: tuple[int, Failure] | None = None
    """The newest that the topic holds, with its time in ms."""
    recalculating: tuple[float, Recalculating] | None = None
    """The newest progress of a recalculation, with when it was heard, by `time.monotonic`."""

    def take(self, one: Status, heard: float, *, counts: bool, at: int = 0) -> None:
        """Apply a status that a slot published, or the driver for it, `at` a time in ms. `counts` is False
        for records that are older than this follower: earlier processes have counted them."""
        if isinstance(one, Recalculating):
            self.recalculating = heard, one
            return
        slot = self.slots.setdefault(one.slot, SlotStatus())
        attempt = slot.attempt if isinstance(one, Numbers) else one.attempt
        if (one.epoch, attempt) < (slot.epoch, slot.attempt):
            return  # published by a job that was replaced since
        if isinstance(one, Failure) and one.by_driver:
            self._take_from_driver(one, slot, at, counts=counts)
            return
        if one.epoch > slot.epoch:
            slot.numbers = None
        slot.epoch, slot.attempt, slot.heard = one.epoch, attempt, heard
        match one:
            case Landing():
                slot.host, slot.pid, slot.reported_state = one.host, one.pid, "starting"
            case Numbers():
                slot.numbers, slot.reported_state = one, "restoring" if one.restoring else "running"
            case Failure():
                slot.reported_state = "failed"
                self._count(one, at, counts=counts)
            case Ended():
                slot.reported_state = "stopped"
            case Warned():
                self.warnings.append(one)
                self.warned[one.code] += counts

    def _take_from_driver(self, one: Failure, slot: SlotStatus, at: int, *, counts: bool) -> None:
        """Apply the driver's report that a job failed, unless the slot has reported it itself. It is no sign
        of life of the slot. A stage reports nothing itself, and shares its number with the driver."""
        known = slot.reported_state == "failed" and (slot.epoch, slot.attempt) == (one.epoch, one.attempt)
        if known:
            return
        if one.slot >= 0:
            slot.epoch, slot.attempt, slot.reported_state = one.epoch, one.attempt, "failed"
        self._count(one, at, counts=counts)

    def _count(self, one: Failure, at: int, *, counts: bool) -> None:
        self.failures[one.code] += counts
        self.last_failure = at, one

    def newest(self) -> int:
        """The newest epoch that published anything."""
        return max((slot.epoch for slot in self.slots.values()), default=0)
