"""The demo while it runs: check its processes, read its numbers and show them, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.cli.demo.processes import Child
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.watch import Snapshot, Watch
from tidegate.errors import TidegateError

REFRESH_SECONDS = 0.5


class RunningDemo:
    """The processes of the demo, the watch on its server, and its screen."""

    def __init__(self, children: list[Child], watch: Watch, screen: Screen) -> None:
        self._children = children
        self._watch = watch
        self.screen = screen
        self.api = watch.api

    def refresh(self) -> Snapshot:
        """Read the numbers and show them. Raises the error that ended a process or the source."""
        for child in self._children:
            child.check()
        now = self._watch.snapshot()
        self.screen.show(now)
        return now

    def run_for(self, seconds: float) -> Snapshot:
        """Refresh for this long, and at least once."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.refresh()
            if time.monotonic() >= deadline:
                return now
            time.sleep(min(REFRESH_SECONDS, max(0.0, deadline - time.monotonic())))

    def wait_until(self, reached: Callable[[Snapshot], bool], what: str, seconds: float) -> Snapshot:
        """Refresh until a condition is reached; raises `demo-failed` if that takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.refresh()
            if reached(now):
                return now
            if time.monotonic() > deadline:
                raise failed(f"{what}: not within {seconds:.0f} s")
            time.sleep(REFRESH_SECONDS)


def failed(message: str) -> TidegateError:
    """The error of a demo that did not show what it should."""
    return TidegateError(
        "demo-failed",
        message,
        "read the output of its processes in the folder of the demo, or run tidegate doctor",
    )
