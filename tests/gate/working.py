"""The app of the tests, at work in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.gate.app import gated

from tidegate import App
from tidegate.clock import SystemClock
from tidegate.log.protocol import Log
from tidegate.runtime.driver.prepare import prepare


class Working:
    """One slot that runs all tasks, until it is closed."""

    def __init__(self, log: Log, folder: Path, make: Callable[[], App] = gated, partitions: int = 2) -> None:
        self._ended = threading.Event()
        self._run = prepare(make().build(), log, SystemClock(), partitions=partitions)
        self._folder = folder
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        [slot] = self._run.slots(self._folder / "state", 1)
        while not self._ended.is_set():
            slot.step(0.02)
            slot.commit()
        slot.close()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
