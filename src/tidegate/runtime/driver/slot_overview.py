"""What a driver knows of its slots: for itself, and for whoever looks on."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from tidegate.errors import LogError
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Warned

SILENT_SECONDS = 3.0
"""Slots publish something once a second. One that has not done so for this long is not known to run."""
KEPT_EVENTS = 1000

Event = Landing | Failure | Warned | Ended
"""What a person may want to see as it happens. A failure is one event, however many reported it."""


@dataclass(slots=True)
class SlotOverview:
    """Of one run. Numbers of slots are their own; those below 0 are stages."""

    landings: dict[int, Landing] = field(default_factory=dict)
    numbers: dict[int, Numbers] = field(default_factory=dict)
    failures: deque[tuple[float, Failure]] = field(default_factory=lambda: deque(maxlen=100))
    warnings: deque[Warned] = field(default_factory=lambda: deque(maxlen=100))
    heard: dict[int, float] = field(default_factory=dict)
    """When each slot last told anything."""
    log_trouble: LogError | None = None
    """Why the log does not answer; None while it does."""
    restarts: int = 0
    plans: int = 0
    records: int = 0
    _events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    _event_count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, told: Landing | Numbers | Failure | Warned | Ended) -> None:
        """What a slot published, or the driver of a slot."""
        by_driver = isinstance(told, Failure) and told.by_driver
        if told.slot >= 0 and not by_driver:
            self.heard[told.slot] = time.monotonic()
            self.log_trouble = None
        match told:
            case Landing():
                self.landings[told.slot] = told
                self.numbers.pop(told.slot, None)  # those of the job before say nothing of this one
            case Numbers():
                self.numbers[told.slot] = told
            case Failure():
                self._take_failure(told)
            case Warned():
                self.warnings.append(told)
            case Ended():
                self.records += told.records
        if isinstance(told, Landing | Warned | Ended):
            self._add_event(told)

    def events_after(self, seen: int) -> tuple[int, list[Event]]:
        """How many events there were, and those that came after the first `seen` of them. The oldest of many
        are not kept."""
        with self._lock:
            new = min(self._event_count - seen, len(self._events))
            return self._event_count, list(self._events)[len(self._events) - new :]

    def _add_event(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            self._event_count += 1

    def note(self, failure: Failure) -> None:
        """How a job ended, as it looked from outside: what the slot itself told counts more."""
        with self._lock:
            if not any(_same(one, failure) for _, one in self.failures):
                self.failures.append((time.monotonic(), failure))

    def recent_failures(self, seconds: float) -> list[Failure]:
        since = time.monotonic() - seconds
        with self._lock:
            return [failure for at, failure in self.failures if at >= since]

    def silent_seconds(self, slot: int) -> float | None:
        """For how long a slot has published nothing, if that is longer than one that is at work takes."""
        silent = time.monotonic() - self.heard.get(slot, time.monotonic())
        return silent if silent > SILENT_SECONDS else None

    def next_term(self) -> None:
        """The slots are others from here on."""
        self.landings.clear()
        self.numbers.clear()
        self.heard.clear()

    def _take_failure(self, failure: Failure) -> None:
        """Of one job: what the slot reported replaces what the driver saw, and not the other way round. In
        the status topic the report of the slot comes first."""
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
