"""The wall clock that the steps of a task see, and the end of a strict replay.

In a replay the clock is stream time. When a task has taken everything below its pins, and all timers that are
due by then were called, the clock moves on to the wall time of the pins, once: timers that were due by then
are called, too. After that the task has finished, which its position records.

While the app drains, wall-clock timers that are due after a given time wait.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.log.positions import Position
from tidegate.runtime.modes import on_stream_time
from tidegate.runtime.replay import FAILED, REPLAYED
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.task.task_timers import TaskTimers
from tidegate.state.store_time import StoreTime


class TaskClock:
    """The clock of one task."""

    def __init__(self, context: RunContext, store_time: StoreTime) -> None:
        self._context = context
        self._store_time = store_time
        self._replay = context.replay
        self._recorded: str | None = None
        self._failed_before = 0
        self.ended = False
        """Whether a strict task has taken all its records."""
        self._timers_until: int | None = None
        self.waits = False
        """While the app drains: whether all timers were called that are due, and later ones wait."""

    @property
    def draining(self) -> bool:
        return self._timers_until is not None

    def drain(self, timers_until: int | None) -> None:
        """Call no more wall-clock timers that are due after this time in ms; None ends that."""
        self._timers_until, self.waits = timers_until, False

    def start(self, position: Position) -> None:
        """Start from a position."""
        self._recorded = position.progress.get(REPLAYED)
        self._failed_before = int(position.progress.get(FAILED, "0"))

    def fire(self, timers: TaskTimers, limit: int, at_pins: Callable[[], bool]) -> tuple[int, bool]:
        """Call the timers that are due; at the pins, once there are none, those of the end, too."""
        stream_time, until = self._store_time.stream_time, self._timers_until
        wall = self.timers() if until is None else min(self.timers(), until)
        fired, called = timers.fire(stream_time, wall, limit)
        self.waits = wall == until and not timers.more_due
        if self.ended or timers.more_due or not at_pins():
            return fired, called
        self.ended = True
        more, again = timers.fire(stream_time, self.timers(), limit)
        return fired + more, called or again

    def timers(self) -> int:
        """Return the time by which wall-clock timers are due; negative before the first record of a
        replay."""
        if not on_stream_time(self._context.mode):
            return self._context.clock.now()
        stream_time = self._store_time.stream_time
        if self._replay is None:
            return stream_time
        return max(stream_time, self._replay.wall if self.ended else self._replay.wall_before or -1)

    def now(self) -> int:
        """Return the time that user code sees."""
        return max(self.timers(), 0)

    def progress(self, failed: int, *, finished: bool) -> dict[str, str]:
        """Return what a position records: that a replay has finished, and how many records have failed since
        the first start of the task, of which `failed` since it was opened. What a position has recorded of
        this round stays: a task that is opened again finishes once more, and may commit before."""
        recorded = {}
        if failed or self._failed_before:
            recorded[FAILED] = str(self._failed_before + failed)
        if self._replay is not None and (finished or not self.unrecorded()):
            recorded[REPLAYED] = str(self._replay.round)
        return recorded

    def unrecorded(self) -> bool:
        """Return whether no position records yet that the task has finished this round."""
        return self._replay is not None and self._recorded != str(self._replay.round)

    def committed(self, position: Position) -> None:
        self._recorded = position.progress.get(REPLAYED)
