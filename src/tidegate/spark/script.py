"""`app.run()`: an app from its own script, `python shop.py`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidegate.config.config import Config, load_config
from tidegate.spark.runnable import RunnableApp, name_of
from tidegate.spark.running import Running
from tidegate.spark.session import start_session

POLL_SECONDS = 0.5


def run(
    app: RunnableApp,
    *,
    name: str | None = None,
    slots: int | None = None,
    until_caught_up: bool = False,
    config: Config | None = None,
) -> None:
    """Start Spark, run the app until Ctrl-C, `tidegate stop` or, with `until_caught_up`, until it has caught
    up, and stop Spark. Raises the error that ended it."""
    resolved = config or load_config()
    found = name or name_of(app)
    session, slots = start_session(app.id, resolved.spark, slots, stages=bool(app.build().stages()))
    try:
        running = Running(app, found, session, resolved, slots=slots, until_caught_up=until_caught_up)
        with _stopping_on_signals(running):
            while not running.wait(POLL_SECONDS):
                pass
    finally:
        with suppress(Exception):
            session.stop()


@contextmanager
def _stopping_on_signals(running: Running) -> Iterator[None]:
    """Commit and close on Ctrl-C and SIGTERM. Spark's own handler would cancel the jobs. Only the main thread
    may set handlers; elsewhere the caller's stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: running.stop()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
