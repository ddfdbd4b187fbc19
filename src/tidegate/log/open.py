"""From the URL of a log to the log.

sqlite:///relative/path.db     a file, relative to the folder of tidegate.toml
sqlite:////absolute/path.db    a file
sqlite://                      in memory, for tests: gone when it is closed
kafka://broker:9092            not yet
"""

from __future__ import annotations

from pathlib import Path

from tidegate.clock import Clock
from tidegate.config import without_login
from tidegate.errors import ConfigError, LogError
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog

_HINT = "write sqlite:///path/to/log.db (relative), sqlite:////path/to/log.db (absolute) or sqlite://"


def open_log(url: str, *, folder: Path, clock: Clock | None = None, create: bool = True) -> Log:
    """The log at `url`; a relative path starts at `folder`.

    A file that does not exist is created, or with `create=False` refused as `no-log`. Raises `ConfigError`
    (`bad-log-url`, `not-yet`) before anything is touched, and `LogError` for a file that is no log.
    """
    path = log_path(url, folder)
    if path is None:
        return SqliteLog(clock=clock)
    try:
        if not create and not path.exists():
            raise LogError(
                "no-log",
                f"there is no log at {path}",
                "tidegate topics create NAME makes one there; or name another with --log",
            )
        return SqliteLog(path, clock=clock)
    except OSError as error:
        raise LogError(
            "cannot-open",
            f"the log at {path} cannot be opened: {error.strerror}",
            "check that its folder can be made and written, or name another place",
        ) from error


def log_path(url: str, folder: Path) -> Path | None:
    """The file that a URL names; None for a log in memory."""
    scheme, found, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if scheme == "kafka" and found:
        raise ConfigError(
            "not-yet",
            "logs on Kafka come with a later version of tidegate",
            "use a sqlite:/// log until then",
        )
    if scheme != "sqlite" or not found:
        raise _bad_url(url, "is no URL of a log")
    if not rest:
        return None
    if not rest.startswith("/") or rest == "/":
        raise _bad_url(url, "names no file")
    if any(sign in rest for sign in "?#\0") or rest.startswith("/~"):
        raise _bad_url(url, "holds more than the path of a file")
    return folder / rest[1:]


def _bad_url(url: object, why: str) -> ConfigError:
    shown = repr(without_login(url)) if isinstance(url, str) else f"a {type(url).__name__}"
    return ConfigError("bad-log-url", f"{shown if len(shown) < 200 else shown[:200]} {why}", _HINT)
