"""Calls that come by time: of the stream, or of the wall clock."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    """One call that comes again and again. Missed beats are called once."""

    def __init__(self, every: int, call: Callable[[int], None]) -> None:
        self._every = every
        self._call = call
        self._due: int | None = None
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def revive(self) -> None:
        """The record that cancelled it failed."""
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def is_due(self, now: int) -> bool:
        """Whether it is time; the first look at the clock starts the first beat."""
        if self._cancelled:
            return False
        if self._due is None:
            self._due = now + self._every
        return now >= self._due

    def fire(self, now: int) -> None:
        self._due = now + self._every
        self._call(now)


class Timers:
    """The timers of one task: nothing of them survives it, `init` schedules them again."""

    def __init__(self) -> None:
        self._stream: list[Timer] = []
        self._wall: list[Timer] = []
        self._since: list[Timer] = []
        self._alive: list[Timer] = []

    def __bool__(self) -> bool:
        return bool(self._stream or self._wall)

    def begin_record(self) -> None:
        self._since = []
        self._alive = [timer for timer in (*self._stream, *self._wall) if not timer.cancelled] if self else []

    def take_back(self) -> None:
        """The record failed: what it scheduled or cancelled never was."""
        for timer in self._since:
            timer.cancel()
        for timer in self._alive:
            timer.revive()
        self._since = []

    def schedule(self, every: int, call: Callable[[int], None], by: str) -> Timer:
        timer = Timer(every, call)
        (self._stream if by == "stream" else self._wall).append(timer)
        self._since.append(timer)
        return timer

    def due(self, stream_time: int, wall: int) -> list[tuple[Timer, int]]:
        """Timers to fire now, each with its clock's time; a clock below 0 was not set yet."""
        self._stream = [timer for timer in self._stream if not timer.cancelled]
        self._wall = [timer for timer in self._wall if not timer.cancelled]
        self._since = [timer for timer in self._since if not timer.cancelled]
        clocks = [(self._stream, stream_time), (self._wall, wall)]
        return [(timer, now) for timers, now in clocks if now >= 0 for timer in timers if timer.is_due(now)]
