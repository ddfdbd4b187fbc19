"""What can go wrong at a numbered step, and the hook that makes it go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from tidegate.errors import LogError, StateError, TidegateError

Mode = Literal["exception", "kill", "unknown", "disk-full", "sleep"]
MODES: tuple[Mode, ...] = get_args(Mode)

COMMIT_POINTS = tuple(f"commit.{step}" for step in range(1, 9))
LOG_POINTS = tuple(f"log.commit.{step}" for step in range(1, 9))
CHECKPOINT_POINTS = ("checkpoint.sync", "checkpoint.rename")
RESTORE_POINTS = tuple(f"restore.{step}" for step in range(1, 7))
COMPACT_POINTS = tuple(f"log.compact.{step}" for step in range(2, 6))
POINTS = COMMIT_POINTS + LOG_POINTS + CHECKPOINT_POINTS + RESTORE_POINTS
IN_EVERY_TURN = ("restore.3", "restore.4", "restore.5")
PER_TASK = ("commit.6", "commit.7", *RESTORE_POINTS)
"""Reached once for each task of a slot, or in every turn of its restore."""

_INSIDE_THE_LOG = tuple(f"log.commit.{step}" for step in range(4, 8))


class Injected(Exception):  # noqa: N818 - stands for whatever may go wrong
    """Stands for any exception."""


class Killed(BaseException):
    """Stands for the end of the process: nothing in the product may hold it up."""


@dataclass(frozen=True, slots=True)
class Fault:
    """At the nth arrival at a point, something happens."""

    point: str
    mode: Mode
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.mode} at {self.point}#{self.nth}"


def possible(point: str, mode: Mode) -> bool:
    """An unknown result is one of the log's commit. Inside it, who sleeps holds everybody up."""
    if mode == "unknown":
        return point in ("log.commit.7", "log.commit.8")
    return mode != "sleep" or point not in _INSIDE_THE_LOG


class Faults:
    """The hook. Counts every arrival; makes one armed fault come true, once."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self.fired: Counter[tuple[str, Mode]] = Counter()
        self._armed: Fault | None = None
        self._left = 0
        self._before: Callable[[], None] | None = None
        self._asleep: Callable[[], None] | None = None

    def arm(self, fault: Fault, before: Callable[[], None], asleep: Callable[[], None]) -> None:
        """`before` looks at the world when the fault comes; `asleep` is what others do while one sleeps."""
        self._armed, self._left = fault, fault.nth
        self._before, self._asleep = before, asleep

    def disarm(self) -> bool:
        """Whether the fault came true."""
        came = self._armed is None
        self._armed = None
        return came

    def __call__(self, point: str) -> None:
        self.reached[point] += 1
        fault = self._armed
        if fault is None or fault.point != point:
            return
        self._left -= 1
        if self._left:
            return
        self._armed = None
        self.fired[point, fault.mode] += 1
        if self._before is not None:
            self._before()
        if fault.mode != "sleep":
            raise _error(fault)
        if self._asleep is not None:
            self._asleep()


def _error(fault: Fault) -> BaseException:
    if fault.mode == "kill":
        return Killed(str(fault))
    if fault.mode == "unknown":
        return LogError("commit-unknown", str(fault), "read the positions")
    if fault.mode == "disk-full":
        kind: type[TidegateError] = LogError if fault.point.startswith("log.") else StateError
        return kind("disk-full", str(fault), "free some space", retryable=True)
    return Injected(str(fault))
