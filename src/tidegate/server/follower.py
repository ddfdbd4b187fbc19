"""A thread that follows topics, and callers that wait for what it reads.

1 follow the topics until the follower ends; 2 when that fails, let the subclass adapt to the error, report it
to callers as `trouble` and wake them; 3 wait, twice as long after each failure in a row; go on with 1.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from tidegate.errors import LogError, TidegateError

LONGEST_RETRY_SECONDS = 30.0
MOST_DOUBLINGS = 10
"""Enough to reach the longest wait. Without a bound, 2**failures overflows a float after hours."""


class Follower(ABC):
    """The base of followers. A subclass starts `_thread` at the end of its constructor.

    `_changed` guards what callers see, and is notified whenever that changes."""

    retry_seconds: ClassVar[float] = 1.0
    """The wait after the first failure."""

    def __init__(self, name: str, thread_name: str) -> None:
        self.used = time.monotonic()
        """When a caller last used it."""
        self.trouble: TidegateError | None = None
        """The error that keeps it from making progress; None while it makes progress."""
        self._name = name
        self._failures = 0
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._evicted = False
        self._thread = threading.Thread(target=self._work, name=thread_name, daemon=True)

    def end(self) -> None:
        """Wake all waiting calls and let the thread end, without waiting for it. May be called again."""
        with self._changed:
            self._ended.set()
            self._changed.notify_all()

    def evict(self) -> None:
        """End, because others need its room: waiting calls may try again, on this server too."""
        self._evicted = True
        self.end()

    def close(self) -> None:
        """End, and wait for the thread. May be called again."""
        self.end()
        self._thread.join()

    @abstractmethod
    def _follow(self) -> None:
        """Read until `_ended` is set. Is called again when it returns earlier or raises."""

    @abstractmethod
    def _progress(self) -> str:
        """Describe how far it has read, for the error `replica-behind`. Is called with the lock held."""

    @abstractmethod
    def _recover(self, error: TidegateError) -> bool:
        """Adapt to an error. Returns True if `_follow` can go on at once; else the error is reported."""

    def _clear_trouble(self) -> None:
        """Note that it makes progress."""
        self.trouble, self._failures = None, 0

    def _wait(self, reached: Callable[[], bool], deadline: float) -> bool:
        """Wait, with the lock held. False if the deadline passes or the follower ends first."""
        while not reached():
            left = deadline - time.monotonic()
            if left <= 0 or self._ended.is_set():
                return False
            self._changed.wait(left)
        return True

    def _behind(self) -> TidegateError:
        """Why a call did not get what it waited for."""
        if self.trouble is not None:
            return self.trouble
        if self._evicted:
            return LogError("replica-behind", f"{self._name} was evicted", "try again", retryable=True)
        if self._ended.is_set():
            return server_ends()
        return LogError("replica-behind", self._progress(), "try again soon", retryable=True)

    def _work(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - reported to callers; the thread must go on
                self._failed(self._as_tidegate_error(error))

    def _failed(self, error: TidegateError) -> None:
        try:
            if self._recover(error):
                return
        except Exception as failure:  # noqa: BLE001 - as above
            error = self._as_tidegate_error(failure)
        with self._changed:
            self.trouble = error
            self._failures += 1
            self._changed.notify_all()
        doublings = min(self._failures - 1, MOST_DOUBLINGS)
        self._ended.wait(min(self.retry_seconds * 2**doublings, LONGEST_RETRY_SECONDS))

    def _as_tidegate_error(self, error: Exception) -> TidegateError:
        """Return the error, as LogError `replica-failed` unless it is a TidegateError."""
        if isinstance(error, TidegateError):
            return error
        return LogError("replica-failed", f"{self._name} cannot be followed: {error!r}")


def server_ends() -> LogError:
    """The error of calls that come or wait while the server stops."""
    return LogError("server-ends", "this server is stopping", "use another server", retryable=True)
