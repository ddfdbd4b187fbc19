"""The upkeep lock and the report of the last round: a file next to the log.

The lock is held for one round or one checkpoint, never between them: a process that is suspended in between
does not block the others. The file's text is a report, for `tidegate doctor` and for the next holder.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec


class Trouble(msgspec.Struct, frozen=True):
    """A part of a round that failed, and why."""

    what: str
    code: str
    message: str


class Report(msgspec.Struct, frozen=True):
    """One round. `ended` is 0 while it is running; times in seconds since 1970."""

    pid: int = 0
    began: float = 0.0
    ended: float = 0.0
    troubles: tuple[Trouble, ...] = ()


_report = msgspec.json.Decoder(Report)


class UpkeepLock:
    """An advisory lock on a file next to the log; a log in memory needs none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._handle: int | None = None
        self._kept = Report()

    def take(self) -> bool:
        """Try to take the lock; return whether that succeeded. The holder must release it soon."""
        if self._path is None:
            return True
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def write(self, report: Report) -> None:
        """Store a report; only the holder may call this."""
        self._kept = report
        if self._handle is not None:
            text = msgspec.json.encode(report)
            os.pwrite(self._handle, text, 0)
            os.ftruncate(self._handle, len(text))

    def read(self) -> Report:
        """Return the newest report; an empty one if there is none, or if it is just being written."""
        if self._path is None:
            return self._kept
        try:
            return _report.decode(self._path.read_bytes())
        except (OSError, msgspec.DecodeError):
            return Report()
