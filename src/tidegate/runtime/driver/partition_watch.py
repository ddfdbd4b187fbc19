"""Notices partitions that are added to topics of the user while an app runs.

An added partition that nobody reads would be a silent loss. So the driver looks now and then; what it finds
twice in a row goes into its next plan, with tasks for the new partitions, or ends the app by name where that
cannot be (`topology.growth`). A restart decides by the same rule.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from tidegate.errors import LogError, TidegateError
from tidegate.runtime.driver.run import Run
from tidegate.runtime.topics.status import Warned, tell

DRIVER = -1
"""The number under which the driver itself reports, as stages do."""
logger = logging.getLogger("tidegate")


class PartitionWatch:
    """Of one run."""

    def __init__(self, run: Run, seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self._next = time.monotonic() + seconds
        self._seen: dict[str, int] = {}

    def look(self, epoch: int) -> Run | None:
        """The app with the partitions that were added, if there are any. Raises ConfigError
        `partitions-changed` where there cannot be tasks for them."""
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self._seconds
        manifest = self._run.manifest
        before = {**manifest.sources, **manifest.sinks}
        try:
            now = self._run.partitions_now()
        except LogError:  # a topic or a log that is gone is for the slots to name
            return None
        changed = {topic: count for topic, count in now.items() if count != before[topic]}
        for topic in changed.keys() - self._seen.keys():
            self._warn(epoch, topic, before[topic], changed[topic])
        settled, self._seen = changed == self._seen, changed
        sources = {topic: count for topic, count in changed.items() if topic in manifest.sources}
        return self._run.grown(sources) if sources and settled else None

    def _warn(self, epoch: int, topic: str, before: int, count: int) -> None:
        if topic in self._run.manifest.sinks:
            code, then = "partitions-changed", "this run goes on to write to those it knows"
            hint = "the next start is refused: start over with tidegate reset, or use a new app id"
        else:
            code, then, hint = (
                "partitions-added",
                "they are read under the next plan",
                "nothing: it comes by itself",
            )
        message = f"topic {topic!r} has {count} partitions, and had {before}: {then}"
        logger.warning("[%s] %s", code, message)
        app, now = self._run.manifest.app, self._run.context.clock.now()
        with suppress(TidegateError):
            tell(self._run.log, app, Warned(epoch, DRIVER, 0, code, message, hint), now)
