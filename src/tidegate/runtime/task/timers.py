"""Timers by stream time or wall-clock time."""

from __future__ import annotations

from collections.abc import Callable


class ScheduledTimer:
    """A repeated call. Missed intervals result in one call."""

    def __init__(self, every: int, call: Callable[[int], None]) -> None:
        self._every = every
        self._call = call
        self._due: int | None = None
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def uncancel(self) -> None:
        """Undo a cancellation: the record that cancelled it failed."""
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def is_due(self, now: int) -> bool:
        """Return whether it is due. The first check starts the first interval."""
        if self._cancelled:
            return False
        if self._due is None:
            self._due = now + self._every
        return now >= self._due

    def fire(self, now: int) -> None:
        self._due = now + self._every
        self._call(now)


class Timers:
    """The timers of one task. They do not survive it: `init` schedules them again."""

    def __init__(self) -> None:
        self.scheduled = 0
        """How many timers were scheduled so far."""
        self._stream: list[ScheduledTimer] = []
        self._wall: list[ScheduledTimer] = []
        self._scheduled_by_record: list[ScheduledTimer] = []
        self._active_before_record: list[ScheduledTimer] = []

    def __bool__(self) -> bool:
        return bool(self._stream or self._wall)

    def begin_record(self) -> None:
        self._scheduled_by_record = []
        self._active_before_record = (
            [timer for timer in (*self._stream, *self._wall) if not timer.cancelled] if self else []
        )

    def roll_back(self) -> None:
        """Undo what a failed record scheduled and cancelled."""
        for timer in self._scheduled_by_record:
            timer.cancel()
        for timer in self._active_before_record:
            timer.uncancel()
        self._scheduled_by_record = []

    def schedule(self, every: int, call: Callable[[int], None], by: str) -> ScheduledTimer:
        timer = ScheduledTimer(every, call)
        self.scheduled += 1
        (self._stream if by == "stream" else self._wall).append(timer)
        self._scheduled_by_record.append(timer)
        return timer

    def due(self, stream_time: int, wall: int) -> list[tuple[ScheduledTimer, int]]:
        """Return the timers to fire now, each with its clock's time; a negative time means that the clock is
        not set yet."""
        self._stream = [timer for timer in self._stream if not timer.cancelled]
        self._wall = [timer for timer in self._wall if not timer.cancelled]
        self._scheduled_by_record = [timer for timer in self._scheduled_by_record if not timer.cancelled]
        clocks = [(self._stream, stream_time), (self._wall, wall)]
        return [(timer, now) for timers, now in clocks if now >= 0 for timer in timers if timer.is_due(now)]
