"""Watches the user's topics for partitions that are added while an app runs.

Records in an added partition that no task reads would be lost silently. The driver checks regularly. A change
that it finds twice in a row goes into its next plan, with tasks for the new partitions, or ends the app with
an error where that is impossible (`topology.growth`). A restart follows the same rule.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from tidegate.errors import LogError, TidegateError
from tidegate.runtime.driver.run import Run
from tidegate.runtime.topics.status import Warned, publish_status

DRIVER = -1
"""The slot number in reports of the driver itself; stages have negative numbers too."""
logger = logging.getLogger("tidegate")


class PartitionWatch:
    """Watches the topics of one run."""

    def __init__(self, run: Run, seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self._next_check = time.monotonic() + seconds
        self._last_changes: dict[str, int] = {}

    def check(self, epoch: int) -> Run | None:
        """Return the run with added partitions, or None. Raises ConfigError `partitions-changed` if the app
        cannot adopt them."""
        if time.monotonic() < self._next_check:
            return None
        self._next_check = time.monotonic() + self._seconds
        manifest = self._run.manifest
        before = {**manifest.sources, **manifest.sinks}
        try:
            now = self._run.partitions_now()
        except LogError:  # slots report a missing topic or an unreachable log
            return None
        changed = {topic: count for topic, count in now.items() if count != before[topic]}
        for topic in changed.keys() - self._last_changes.keys():
            self._warn(epoch, topic, before[topic], changed[topic])
        unchanged, self._last_changes = changed == self._last_changes, changed
        sources = {topic: count for topic, count in changed.items() if topic in manifest.sources}
        return self._run.grown(sources) if sources and unchanged else None

    def _warn(self, epoch: int, topic: str, before: int, count: int) -> None:
        if topic in self._run.manifest.sinks:
            code, then = "partitions-changed", "this run still writes to those that it knows"
            hint = "the next start is refused: write to a topic of another name, or use tidegate reset"
        else:
            code, then, hint = (
                "partitions-added",
                "they are read under the next plan",
                "nothing to do",
            )
        message = f"topic {topic!r} has {count} partitions instead of {before}: {then}"
        logger.warning("[%s] %s", code, message)
        app, now = self._run.manifest.app, self._run.context.clock.now()
        with suppress(TidegateError):
            publish_status(self._run.log, app, Warned(epoch, DRIVER, 0, code, message, hint), now)
