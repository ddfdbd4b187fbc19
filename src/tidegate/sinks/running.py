"""Sinks that run: made from their settings, and with retries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tidegate.clock import Clock
from tidegate.errors import ConfigError, SerdeError, TidegateError
from tidegate.log.open import log_path
from tidegate.log.protocol import Log
from tidegate.sinks.database import Database
from tidegate.sinks.settings import SinkSettings
from tidegate.sinks.sink import Rereading, Sink
from tidegate.sinks.sources import find_sources
from tidegate.topology.graph import Topology

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
AT_ONCE = {"offset-out-of-range", "topic-recreated"}
"""Errors of the log after which the sink is opened again without a wait: its position cannot be continued."""
Noticed = Callable[[Rereading | SerdeError], None]
Retries = Callable[[TidegateError], bool]
"""Is called with each failure; returns whether the sink tries again."""


def make_sink(
    log: Log,
    settings: SinkSettings,
    folder: Path,
    topology: Topology | None,
    clock: Clock,
    noticed: Noticed = lambda _: None,
) -> tuple[Sink, Database]:
    """Create a sink and its database, which the caller closes. Nothing is connected yet."""
    database = Database(settings.url, folder)
    if database.path is not None and log.location.on_one_machine:
        own = log_path(log.location.url, log.location.folder)
        if own is not None and own.resolve() == database.path.resolve():
            raise ConfigError("bad-setting", "the url of a sink names the log itself", "use another file")
    if database.is_sqlite and settings.schema is not None:
        raise ConfigError("bad-setting", "SQLite has no schemas, and schema is set", "use prefix")
    sink = Sink(
        log,
        database,
        find_sources(log, settings, topology),
        clock,
        schema=settings.schema,
        prefix=settings.prefix,
        batch=settings.batch,
        skip=settings.on_error == "skip",
        noticed=noticed,
    )
    return sink, database


def run_sink(sink: Sink, ended: threading.Event, retries: Retries, *, until_caught_up: bool = False) -> None:
    """Run a sink until `ended` is set, or until it has caught up. After a failure it waits, twice as long
    after each one in a row, and goes on from what the database has."""
    wait, applied = FIRST_WAIT_SECONDS, -1
    while not ended.is_set():
        try:
            sink.follow(ended, until_caught_up=until_caught_up)
        except TidegateError as error:
            if error.code in AT_ONCE:
                continue
            if not retries(error):
                raise
        else:
            return
        if sink.counts.records > applied:
            wait, applied = FIRST_WAIT_SECONDS, sink.counts.records
        ended.wait(wait)
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)
