"""Runs the count on tidegate, reports what it does in JSON lines, and ends cleanly on SIGTERM.

Arguments: spark or plain, the app, bootstrap, source, output, app id, folder, commit interval in ms, slots.
On Spark it does what `tidegate run` does, with the same session.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.tidegate.plain import Plain
from tidegate.config.config import Config, load_config
from tidegate.load import load_app
from tidegate.runtime.driver.coordinator import DriverState, SlotOverview

LOOK_SECONDS = 0.05


class AtWork(Protocol):
    """What is read of a running app."""

    @property
    def state(self) -> DriverState: ...
    @property
    def view(self) -> SlotOverview: ...
    def stop(self) -> None: ...
    def wait(self, seconds: float | None = None) -> bool: ...


class Events:
    """JSON lines: each state once, and every second how many records there were."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._state = ""
        self._due = 0.0

    def look(self, running: AtWork) -> None:
        """RUNNING once all tasks are restored: until then the driver runs, and its tasks do not."""
        numbers = list(running.view.numbers.values())
        if running.state is DriverState.RUNNING and sum(one.running for one in numbers) == self._tasks:
            self.state("RUNNING")
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + 1
            self.emit("processed", records=sum(one.records for one in numbers))

    def state(self, name: str) -> None:
        if name != self._state:
            self._state = name
            self.emit("state", state=name)

    def emit(self, event: str, **fields: Any) -> None:
        line = {"event": event, "ms": time.time_ns() // 1_000_000, **fields}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def main(
    place: str,
    name: str,
    bootstrap: str,
    source: str,
    output: str,
    app_id: str,
    folder: str,
    commit_ms: str,
    slots: str,
) -> None:
    """Count until SIGTERM."""
    events = Events(tasks=4)
    events.state("STARTING")
    settings = {
        "log": f"kafka://{bootstrap}",
        "commit_interval_ms": int(commit_ms),
        "state_dir": "state",
        "settings": {"app_id": app_id, "source": source, "output": output},
    }
    config = load_config(settings, environ={}, folder=Path(folder))
    running, end = (_on_spark if place == "spark" else _plain)(name, config, int(slots))
    for number in (signal.SIGINT, signal.SIGTERM):  # after Spark's own handler
        signal.signal(number, lambda *_: running.stop())
    while not running.wait(LOOK_SECONDS):
        events.look(running)
    events.emit("processed", records=running.view.records)
    end()
    events.state("NOT_RUNNING")


def _on_spark(name: str, config: Config, slots: int) -> tuple[AtWork, Callable[[], object]]:
    from tidegate.spark.running import Running
    from tidegate.spark.session import end_session, start_session

    app = load_app(name, config.settings)
    master, stages = {"master": f"local[{slots}]"}, bool(app.build().stages())
    session, _ = start_session(app.id, master, slots, stages=stages, archive=True)
    return Running(app, name, session, config, slots=slots), lambda: end_session(session, lambda _: None)


def _plain(name: str, config: Config, slots: int) -> tuple[AtWork, Callable[[], object]]:
    return Plain(load_app(name, config.settings), name, config, slots), lambda: None


if __name__ == "__main__":
    main(*sys.argv[1:])
