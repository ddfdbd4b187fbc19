"""Clocks, passed to constructors so that tests can control time."""

from __future__ import annotations

import time
from typing import Protocol

from tidegate.types import Millis


class Clock(Protocol):
    """Wall-clock time in milliseconds since 1970."""

    def now(self) -> Millis:
        """Return the current time."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)


class ManualClock:
    """A clock that moves only by `advance`."""

    def __init__(self, start: int = 1_700_000_000_000) -> None:
        self._now = start

    def now(self) -> Millis:
        return Millis(self._now)

    def advance(self, millis: int) -> None:
        """Move the clock; a negative step is a clock jump."""
        self._now += millis
