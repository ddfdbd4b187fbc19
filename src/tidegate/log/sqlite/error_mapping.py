"""SQLite's errors and the operating system's in our words: no caller ever meets one of theirs."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from tidegate.errors import LogError
from tidegate.log.sqlite.layout import corrupt

# Our SQL is fixed, and tested on whole files: a statement that SQLite cannot prepare, a constraint that
# fails and text that is no UTF-8 come from bytes in the file that are not what was written.
_DAMAGE = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.SchemaChangeError,
    apsw.TooBigError,
    UnicodeDecodeError,
)
_REST: list[tuple[tuple[type[Exception], ...], str, str, str]] = [
    (
        (apsw.BusyError, apsw.LockedError, apsw.ProtocolError),
        "log-busy",
        "another process keeps the log locked",
        "look for a stopped process that holds the file, or try again",
    ),
    (
        (apsw.FullError,),
        "disk-full",
        "the disk of the log is full",
        "free some space; nothing committed is lost",
    ),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError),
        "read-only",
        "the log file cannot be written",
        "check its owner and mode",
    ),
    (
        (apsw.CantOpenError, OSError),
        "cannot-open",
        "the log file cannot be opened",
        "check the folder, its owner and mode",
    ),
    ((apsw.ConnectionClosedError,), "closed", "the log or its reader is closed", "open it again"),
    ((apsw.IOError,), "io-error", "the disk of the log failed", "check the disk; nothing committed is lost"),
    ((apsw.Error,), "sqlite-error", "SQLite cannot go on", "try again; nothing committed is lost"),
]
_RETRYABLE = frozenset(["log-busy", "disk-full", "io-error"])


@contextmanager
def translated_errors() -> Iterator[None]:
    """Whatever SQLite or the operating system raises inside leaves as a LogError with a hint."""
    try:
        yield
    except _DAMAGE as error:
        raise corrupt(str(error)) from error
    except (apsw.Error, OSError) as error:
        raise _told(error) from error


def _told(error: Exception) -> LogError:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _told(apsw.FullError(str(error)))
    code, message, hint = next(words for kinds, *words in _REST if isinstance(error, kinds))
    return LogError(code, f"{message} ({error})", hint, retryable=code in _RETRYABLE)
