"""The demo while it runs: what is looked at again and again, whoever plays."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.cli.demo.processes import Child
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.watch import Snapshot, Watch
from tidegate.errors import TidegateError

LOOK_SECONDS = 0.5


class Scene:
    """Children that must live, a watch, and a view of it."""

    def __init__(self, children: list[Child], watch: Watch, view: Screen) -> None:
        self._children = children
        self._watch = watch
        self.view = view
        self.api = watch.api

    def look(self) -> Snapshot:
        """The demo now, shown. Raises what ended a child or the source."""
        for child in self._children:
            child.check()
        now = self._watch.snapshot()
        self.view.show(now)
        return now

    def go_on(self, seconds: float) -> Snapshot:
        """Look for so long, and at least once."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.look()
            if time.monotonic() >= deadline:
                return now
            time.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))

    def until(self, true: Callable[[Snapshot], bool], what: str, seconds: float) -> Snapshot:
        """Look until it is true; `demo-failed` if it does not become so."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.look()
            if true(now):
                return now
            if time.monotonic() > deadline:
                raise failed(f"{what}: not within {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)


def failed(message: str) -> TidegateError:
    """The demo did not show what it should."""
    return TidegateError("demo-failed", message, "look into the folder of the demo; tidegate doctor")
