"""Faults that a test places: at a numbered step of a protocol, the process crashes or an error is raised.

The steps are those of the docstrings that list them: commit.1-8 (`Commit`), restore.1-6, log.commit.1-8. Each
fault happens once, right before its step, when that is reached for the n-th time; faults placed later wait
for those placed before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from tidegate.errors import ConfigError, LogError, StateError, TidegateError
from tidegate.log import faultpoints

ErrorKind = Literal["exception", "disk-full", "unknown-commit"]
RESULT_POINTS = ("log.commit.7", "log.commit.8")


class Commit(StrEnum):
    """The steps of a commit, as points for a crash: right before the step of that number."""

    TAKEN = "commit.1"
    OUTPUTS = "commit.2"
    CHANGELOGS = "commit.3"
    POSITIONS = "commit.4"
    LOG = "commit.5"
    LOG_COMMITTED = "commit.6"
    STORE = "commit.7"
    HAND_OVER = "commit.8"


class Crash(BaseException):
    """The process crashed here. No handler may catch it, so it is not an Exception."""

    def __init__(self, description: str, *, elsewhere: bool) -> None:
        super().__init__(description)
        self.elsewhere = elsewhere


class Injected(Exception):  # noqa: N818 - stands for any error
    """Any exception."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A fault: raised when a point is reached for the n-th time."""

    point: str
    arrival: int
    error: BaseException

    def __str__(self) -> str:
        what = "crash" if isinstance(self.error, Crash) else f"{type(self.error).__name__}"
        return f"{what} at {self.point}, arrival {self.arrival}"


class Faults:
    """Counts how often each fault point is reached, and raises the placed faults."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self.happened: list[str] = []
        self._placed: deque[Placed] = deque()
        self._arrivals = 0
        self._raised: list[BaseException] = []

    def crash(self, at: str, arrival: int, *, elsewhere: bool) -> None:
        self._add(at, arrival, Crash(f"at {at}", elsewhere=elsewhere))

    def fail(self, at: str, arrival: int, error: ErrorKind | Exception) -> None:
        self._add(at, arrival, error if isinstance(error, Exception) else _error(str(at), error))

    def caused(self, error: BaseException) -> bool:
        """Whether an error is a placed one, or was caused by one."""
        known: BaseException | None = error
        while known is not None:
            if any(known is raised for raised in self._raised):
                return True
            known = known.__cause__ or known.__context__
        return False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Install the faults inside the block. AssertionError at its end for those that did not happen."""
        try:
            with faultpoints.installed(self._arrive):
                yield
            self._check()
        finally:
            self._placed.clear()
            self._arrivals = 0

    def _add(self, at: str, arrival: int, error: BaseException) -> None:
        if arrival < 1:
            raise ConfigError("bad-arrival", f"there is no arrival {arrival}", "count from 1")
        self._placed.append(Placed(str(at), arrival, error))

    def _arrive(self, point: str) -> None:
        self.reached[point] += 1
        if not self._placed or self._placed[0].point != point:
            return
        self._arrivals += 1
        if self._arrivals == self._placed[0].arrival:
            placed = self._placed.popleft()
            self._arrivals = 0
            self.happened.append(str(placed))
            self._raised.append(placed.error)
            raise placed.error

    def _check(self) -> None:
        """Raise for faults that did not happen: a test whose crash does not happen proves nothing."""
        if self._placed:
            waiting = ", ".join(str(placed) for placed in self._placed)
            raise AssertionError(
                f"did not happen: {waiting}; the point of the first was reached {self._arrivals} times"
            )


def _error(at: str, kind: ErrorKind) -> Exception:
    if kind not in get_args(ErrorKind):
        raise ConfigError("bad-fault", f"there is no error {kind!r}", f"use {', '.join(get_args(ErrorKind))}")
    if kind == "exception":
        return Injected(f"at {at}")
    if kind == "disk-full":
        family: type[TidegateError] = LogError if at.startswith("log.") else StateError
        return family("disk-full", f"no space left at {at}", "free some space", retryable=True)
    if at not in RESULT_POINTS:
        raise ConfigError(
            "bad-fault",
            f"the result of a commit cannot be unknown at {at}",
            "place it at log.commit.7 (it does not count) or log.commit.8 (it counts)",
        )
    return LogError("commit-unknown", f"no answer at {at}", "read the positions")
