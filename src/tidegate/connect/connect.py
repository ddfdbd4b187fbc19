"""Connect to a log without Spark: for producers, scripts and tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.clock import Clock
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.connect.connection import Connection
    from tidegate.log.protocol import Log


def connect(
    log: str | Log | None = None,
    *,
    config: Config | None = None,
    folder: Path | None = None,
    clock: Clock | None = None,
) -> Connection:
    """Connect to the log of tidegate.toml, to the log at a URL, or to an open log.

        with tidegate.connect() as log:
            log.send(ORDERS, "ada", Order(1, 500))

    Without a `config` the settings are those of `folder` (default: the working folder). A log that was passed
    in open stays open when the connection closes.
    """
    # The log imports Arrow and SQLite; `import tidegate` alone does not.
    from tidegate.connect.connection import Connection
    from tidegate.log.location import LogLocation
    from tidegate.log.open import open_log
    from tidegate.serde.registry_settings import use_registry

    if config is None:
        config = load_config({"log": log} if isinstance(log, str) else None, folder=folder)
    if config.registry:
        use_registry(config.registry)
    if isinstance(log, str):
        opened = open_log(LogLocation.of(config, log), clock=clock)
    elif log is not None:
        return Connection(_open(log), partitions=config.partitions, clock=clock, owned=False)
    else:
        opened = open_log(LogLocation.of(config), clock=clock)
    return Connection(opened, partitions=config.partitions, clock=clock)


def _open(log: Log) -> Log:
    if not hasattr(log, "reader"):
        raise ConfigError(
            "bad-log-url",
            f"a {type(log).__name__} is neither an open log nor the URL of one",
            'pass a str such as "sqlite:///log.db", or nothing for the log of tidegate.toml',
        )
    return log
