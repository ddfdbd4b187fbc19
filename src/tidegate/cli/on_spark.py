"""A Spark session for a command that recalculates, with a line that shows its progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tidegate.app import App
from tidegate.cli.output import print_note
from tidegate.cli.progress_line import ProgressLine
from tidegate.cli.run import quiet_java
from tidegate.config.config import Config
from tidegate.errors import ConfigError


class OnSpark(NamedTuple):
    """What a recalculation needs."""

    session: Any
    slots: int | None
    line: ProgressLine


@contextmanager
def on_spark(app: App, config: Config) -> Iterator[OnSpark]:
    """Start Spark as `tidegate run` does, and stop it at the end."""
    try:
        from tidegate.spark.session import end_session, start_session
    except ImportError as error:
        raise ConfigError(
            "no-pyspark", f"Spark is not installed: {error}", "pip install tidegate[spark]"
        ) from None
    with quiet_java(False):
        print_note(f"{app.id}: starting Spark")
        session, slots = start_session(
            app.id, dict(config.spark), stages=bool(app.build().stages()), archive=True
        )
        try:
            with ProgressLine(app.id) as line:
                yield OnSpark(session, slots, line)
        finally:
            end_session(session, print_note)
