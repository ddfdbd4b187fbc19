"""What a driver knows of its slots."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from tidegate.errors import LogError
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Status, Warned

SILENT_SECONDS = 3.0
"""Slots publish something once a second. One that has not for this long may not be running."""
KEPT_EVENTS = 1000

SlotEvent = Landing | Failure | Warned | Ended
"""What a user may want to see as it happens. A failure is one event, even if slot and driver both report
it."""


@dataclass(slots=True)
class SlotOverview:
    """The slots of one run by their numbers. Negative numbers are stages."""

    landings: dict[int, Landing] = field(default_factory=dict)
    numbers: dict[int, Numbers] = field(default_factory=dict)
    failures: deque[tuple[float, Failure]] = field(default_factory=lambda: deque(maxlen=100))
    warnings: deque[Warned] = field(default_factory=lambda: deque(maxlen=100))
    last_report: dict[int, float] = field(default_factory=dict)
    """When each slot last published anything."""
    log_trouble: LogError | None = None
    """Why the log does not answer; None while it does."""
    restarts: int = 0
    plans: int = 0
    records: int = 0
    _events: deque[SlotEvent] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    _event_count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, status: Status) -> None:
        """Add what a slot published, or the driver on behalf of a slot."""
        by_driver = isinstance(status, Failure) and status.by_driver
        if status.slot >= 0 and not by_driver:
            self.last_report[status.slot] = time.monotonic()
            self.log_trouble = None
        match status:
            case Landing():
                self.landings[status.slot] = status
                self.numbers.pop(status.slot, None)  # they belong to the previous job
            case Numbers():
                self.numbers[status.slot] = status
            case Failure():
                self._add_failure(status)
            case Warned():
                self.warnings.append(status)
            case Ended():
                self.records += status.records
        if isinstance(status, Landing | Warned | Ended):
            self._add_event(status)

    def events_after(self, seen: int) -> tuple[int, list[SlotEvent]]:
        """Return how many events there were in all, and those after the first `seen` of them. Only the newest
        are kept."""
        with self._lock:
            new = min(self._event_count - seen, len(self._events))
            return self._event_count, list(self._events)[len(self._events) - new :]

    def _add_event(self, event: SlotEvent) -> None:
        with self._lock:
            self._events.append(event)
            self._event_count += 1

    def add_seen_by_driver(self, failure: Failure) -> None:
        """Add how a job ended as the driver saw it, unless the slot itself reported it."""
        with self._lock:
            if not any(_same(one, failure) for _, one in self.failures):
                self.failures.append((time.monotonic(), failure))

    def recent_failures(self, seconds: float) -> list[Failure]:
        since = time.monotonic() - seconds
        with self._lock:
            return [failure for at, failure in self.failures if at >= since]

    def all_refused(self, epoch: int, slots: int) -> bool:
        """Return whether no slot has landed in this epoch and the executor of each has refused its newest
        order."""
        if self.landings:
            return False
        with self._lock:
            newest = {one.slot: one.refused for _, one in self.failures if one.epoch == epoch}
        return sum(newest.values()) >= slots

    def silent_seconds(self, slot: int) -> float | None:
        """Return for how long a slot has been silent, or None if it is not longer than usual."""
        silent = time.monotonic() - self.last_report.get(slot, time.monotonic())
        return silent if silent > SILENT_SECONDS else None

    def begin_epoch(self) -> None:
        """Forget the slots of the previous epoch."""
        self.landings.clear()
        self.numbers.clear()
        self.last_report.clear()

    def _add_failure(self, failure: Failure) -> None:
        """Add a failure. For the same job, a report of the slot replaces one of the driver, never the
        reverse. In the status topic the slot's report comes first."""
        with self._lock:
            known = next((n for n, (_, one) in enumerate(self.failures) if _same(one, failure)), None)
            if known is None:
                self.failures.append((time.monotonic(), failure))
            elif not failure.by_driver:
                self.failures[known] = self.failures[known][0], failure
            elif not self.failures[known][1].by_driver:
                return
        self._add_event(failure)


def _same(one: Failure, other: Failure) -> bool:
    return (one.epoch, one.slot, one.attempt) == (other.epoch, other.slot, other.attempt)
