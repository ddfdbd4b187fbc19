"""How the slots of an app are doing, folded from the records of its status topic.

    starting ── numbers ──> running, restoring ── nothing for 3 s ──> silent
                                  │ ^                                    │
       stopped, failed <──────────┘ └────────── numbers, landing <───────┘

A slot publishes its numbers once a second. One that was killed publishes nothing, so its last numbers count
as what it has done, and not as what it does.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from tidegate.runtime.driver.slot_overview import SILENT_SECONDS
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Status, Warned

KEPT_WARNINGS = 20
STATES = ("running", "restoring", "starting", "silent", "failed", "stopped")


@dataclass(slots=True)
class SlotStatus:
    """One slot, as far as it published."""

    epoch: int = 0
    attempt: int = 0
    host: str = ""
    numbers: Numbers | None = None
    """The newest: of this job once it is at work, else of the one before."""
    state_told: str = "starting"
    heard: float = -math.inf
    """When it last published anything, by `time.monotonic` of this process."""
    pid: int | None = None
    """The worker process that runs it, on its host."""

    def state(self, now: float) -> str:
        """One of STATES."""
        if self.state_told in ("failed", "stopped"):
            return self.state_told
        return "silent" if now - self.heard > SILENT_SECONDS else self.state_told

    def tasks(self, now: float, planned: int) -> dict[str, int]:
        """How many of its stream tasks are in which state."""
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
    """How often each code was warned of, since this process follows."""
    failures: Counter[str] = field(default_factory=Counter)
    """Which errors ended jobs of slots, since this process follows."""
    last_failure: tuple[int, Failure] | None = None
    """The newest that the topic holds, and its time in ms."""

    def take(self, one: Status, heard: float, *, counts: bool, at: int = 0) -> None:
        """What a slot published, or the driver of it, `at` a time in ms. With `counts` it came while this
        process followed: what lies before that was counted by others, or by the process that ran here
        before."""
        slot = self.slots.setdefault(one.slot, SlotStatus())
        attempt = slot.attempt if isinstance(one, Numbers) else one.attempt
        if (one.epoch, attempt) < (slot.epoch, slot.attempt):
            return  # of a job that another one replaced
        if isinstance(one, Failure) and one.by_driver:
            self._take_from_driver(one, slot, at, counts=counts)
            return
        if one.epoch > slot.epoch:
            slot.numbers = None
        slot.epoch, slot.attempt, slot.heard = one.epoch, attempt, heard
        match one:
            case Landing():
                slot.host, slot.pid, slot.state_told = one.host, one.pid, "starting"
            case Numbers():
                slot.numbers, slot.state_told = one, "restoring" if one.restoring else "running"
            case Failure():
                slot.state_told = "failed"
                self._count(one, at, counts=counts)
            case Ended():
                slot.state_told = "stopped"
            case Warned():
                self.warnings.append(one)
                self.warned[one.code] += counts

    def _take_from_driver(self, one: Failure, slot: SlotStatus, at: int, *, counts: bool) -> None:
        """A job ended. If the slot reported that itself, its report counts; the driver's is no sign of life
        of the slot. A stage reports nothing itself, and shares its number with the driver."""
        known = slot.state_told == "failed" and (slot.epoch, slot.attempt) == (one.epoch, one.attempt)
        if known:
            return
        if one.slot >= 0:
            slot.epoch, slot.attempt, slot.state_told = one.epoch, one.attempt, "failed"
        self._count(one, at, counts=counts)

    def _count(self, one: Failure, at: int, *, counts: bool) -> None:
        self.failures[one.code] += counts
        self.last_failure = at, one

    def newest(self) -> int:
        """The newest epoch of which anything is known."""
        return max((slot.epoch for slot in self.slots.values()), default=0)
