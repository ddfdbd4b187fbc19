"""Translate errors of SQLite and the operating system into LogErrors: callers never see the originals."""

from __future__ import annotations

import errno
from types import TracebackType

import apsw

from tidegate.errors import LogError
from tidegate.log.sqlite.layout import corrupt

# The SQL is fixed and tested on intact files: a statement that SQLite cannot prepare, a failing constraint
# or text that is not UTF-8 can only come from damaged bytes in the file.
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
        "look for a suspended process that holds the file open, or try again",
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
        "the log file cannot be written to",
        "check its owner and mode",
    ),
    (
        (apsw.CantOpenError, OSError),
        "cannot-open",
        "the log file cannot be opened",
        "check its folder, owner and mode",
    ),
    ((apsw.ConnectionClosedError,), "closed", "the log or its reader is closed", "open it again"),
    ((apsw.IOError,), "io-error", "the disk of the log failed", "check the disk; nothing committed is lost"),
    ((apsw.Error,), "sqlite-error", "SQLite reported an error", "try again; nothing committed is lost"),
]
_RETRYABLE = frozenset(["log-busy", "disk-full", "io-error"])


class _TranslatedErrors:
    """A context manager without state: each read and write of the log uses it several times."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, _DAMAGE):
            raise corrupt(str(error)) from error
        if isinstance(error, apsw.Error | OSError):
            raise _translated(error) from error


_TRANSLATED_ERRORS = _TranslatedErrors()


def translated_errors() -> _TranslatedErrors:
    """Raise errors of SQLite and the operating system from inside the block as LogErrors with a hint."""
    return _TRANSLATED_ERRORS


def _translated(error: Exception) -> LogError:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _translated(apsw.FullError(str(error)))
    code, message, hint = next(texts for kinds, *texts in _REST if isinstance(error, kinds))
    return LogError(code, f"{message} ({error})", hint, retryable=code in _RETRYABLE)
