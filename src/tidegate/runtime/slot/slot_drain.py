"""How the job of a slot follows a drain in the control topic."""

from __future__ import annotations

import time

from tidegate.clock import Clock
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.control import ROLE, Control

REPORT_SECONDS = COMMIT_SECONDS = 0.2
"""While a slot drains, others wait for its commits and reports: none takes longer than this."""


class SlotDrain:
    """Lets a slot drain while an entry requests it, and no longer: whoever wrote the entry may have died."""

    def __init__(self, slot: Slot, epoch: int, clock: Clock) -> None:
        self._slot = slot
        self._epoch = epoch
        self._clock = clock
        self._until = 0
        self._next_report = 0.0

    def follow(self, control: Control) -> None:
        """Begin or end, as the newest entry requests."""
        entry = control.drain(ROLE)
        in_force = entry.epoch >= self._epoch and self._clock.now() < entry.until
        self._until = entry.until if in_force else 0
        self._slot.drain(entry.timers_until if in_force else None)

    def report_due(self) -> bool:
        """Return whether to report now because of the drain."""
        if not self._until or time.monotonic() < self._next_report:
            return False
        self._next_report = time.monotonic() + REPORT_SECONDS
        return True

    def commit_seconds(self, interval: float) -> float:
        """Return the seconds between two commits."""
        return min(interval, COMMIT_SECONDS) if self._until else interval

    @property
    def rests_until(self) -> int:
        """What the slot reports."""
        return self._until if self._slot.rests else 0
