"""How a slot takes no more records from sources, while it continues with internal topics.

The source partitions of its tasks are paused. A paused partition counts as one at its end, so that a task
that also reads an internal topic continues there: it is as if the next records of the source had been written
a little later. What was fetched before is still processed.

A slot rests when all of that is processed and committed, and all timers that were due were called. A slot
that rests writes to internal topics only because of what it reads from internal topics. So the app has
drained when all slots rest and every internal topic was read up to its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.runtime.task.task import StreamTask
from tidegate.topology.node import COMMANDS, SOURCES
from tidegate.types import TopicPartition

PAUSED = tuple(kind for kind in SOURCES if kind not in COMMANDS)
"""What a drain pauses. Commands of gates are read on, since an event that passes waits for them."""


class Draining:
    """Whether a slot drains, and how far it is."""

    def __init__(self) -> None:
        self._timers_until: int | None = None
        self._processed = False
        self.sources: set[TopicPartition] = set()
        """The paused partitions."""
        self.rests = False

    def set(self, tasks: Iterable[StreamTask], timers_until: int | None) -> None:
        """Begin, or end with None. Repeated calls change nothing."""
        if timers_until != self._timers_until:
            self._timers_until = timers_until
            self._processed = self.rests = False
            self.sources = set()
            self.started(tasks)

    def started(self, tasks: Iterable[StreamTask]) -> None:
        """Apply it to tasks that run since now, too."""
        for task in tasks:
            task.clock.drain(self._timers_until)
            if self._timers_until is not None:
                self.sources |= set(task.partitions(PAUSED))

    def begin_step(self) -> None:
        """Called before records are processed: a commit within the step shows nothing."""
        self._processed = False

    def stepped(self, tasks: Iterable[StreamTask], *, restoring: bool) -> None:
        """Called after records were processed and timers called."""
        self._processed = (
            self._timers_until is not None
            and not restoring
            and all(task.clock.waits and not task.merge.will_take(task.partitions(PAUSED)) for task in tasks)
        )

    def committed(self) -> None:
        """Called after a commit."""
        self.rests = self._processed
