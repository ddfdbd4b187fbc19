"""Open a log by its URL.

sqlite:///relative/path.db     a file, relative to the folder of tidegate.toml
sqlite:////absolute/path.db    a file
sqlite://                      in memory, for tests: lost when it is closed
kafka://host:9092,other:9092   a Kafka cluster; kafka:// takes the brokers from [kafka] bootstrap.servers
"""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.clock import Clock
from tidegate.config.config import without_login
from tidegate.errors import ConfigError, LogError
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog

_HINT = (
    "write sqlite:///path/to/log.db (relative), sqlite:////path/to/log.db (absolute), sqlite:// or"
    " kafka://host:9092"
)
_SERVERS = re.compile(r"[^\s/?#@,]+(,[^\s/?#@,]+)*")


def open_log(location: LogLocation, *, clock: Clock | None = None, create: bool = True) -> Log:
    """Open the log at a location.

    A file that does not exist is created, or with `create=False` refused as `no-log`. Raises ConfigError
    (`bad-log-url`, `bad-setting`) before anything is touched, LogError for a file that is not a log, and
    `log-unreachable` if no broker answers.
    """
    servers = kafka_servers(location.url)
    if servers is not None:
        return _kafka(servers, location, clock)
    path = log_path(location.url, location.folder)
    if path is None:
        return SqliteLog(clock=clock)
    try:
        if not create and not path.exists():
            raise LogError(
                "no-log",
                f"there is no log at {path}",
                "create one with: tidegate topics create NAME; or choose another log with --log",
            )
        return SqliteLog(path, clock=clock)
    except OSError as error:
        raise LogError(
            "cannot-open",
            f"the log at {path} cannot be opened: {error.strerror}",
            "check that its folder can be created and written to, or choose another path",
        ) from error


def log_path(url: str, folder: Path) -> Path | None:
    """Return the file that a URL names, or None for a log in memory."""
    scheme, found, rest = _parts(url)
    if scheme != "sqlite" or not found:
        raise _bad_url(url, "is not the URL of a log")
    if not rest:
        return None
    if not rest.startswith("/") or rest == "/":
        raise _bad_url(url, "names no file")
    if any(sign in rest for sign in "?#\0") or rest.startswith("/~"):
        raise _bad_url(url, "holds more than the path of a file")
    return folder / rest[1:]


def check_location(location: LogLocation) -> None:
    """Raise ConfigError for a URL that does not name a log."""
    if kafka_servers(location.url) is None:
        log_path(location.url, location.folder)


def kafka_servers(url: str) -> str | None:
    """Return the brokers that a kafka:// URL names (possibly ""), or None for another kind of URL."""
    scheme, found, rest = _parts(url)
    if scheme != "kafka" or not found:
        return None
    servers = rest.removesuffix("/")
    if servers and not _SERVERS.fullmatch(servers):
        raise _bad_url(url, "holds more than the addresses of brokers")
    return servers


def _parts(url: str) -> tuple[str, str, str]:
    return url.partition("://") if isinstance(url, str) else ("", "", "")


def _kafka(servers: str, location: LogLocation, clock: Clock | None) -> Log:
    try:
        from tidegate.log.kafka.log import KafkaLog
    except ImportError as error:
        raise ConfigError(
            "no-kafka", f"Kafka's client is not installed: {error}", "pip install tidegate[kafka]"
        ) from None
    return KafkaLog(servers, location.kafka, clock=clock)


def _bad_url(url: object, why: str) -> ConfigError:
    shown = repr(without_login(url)) if isinstance(url, str) else f"a {type(url).__name__}"
    return ConfigError("bad-log-url", f"{shown if len(shown) < 200 else shown[:200]} {why}", _HINT)
