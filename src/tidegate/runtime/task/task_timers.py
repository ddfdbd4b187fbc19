"""The timers of a task: those that its steps schedule, and those of keys."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.log.positions import TaskId
from tidegate.runtime.output.on_error import in_user_code
from tidegate.runtime.task.key_timers import KeyTimerCalls
from tidegate.runtime.task.timers import Timers


class TaskTimers:
    """Calls the timers that are due."""

    def __init__(self, task: TaskId) -> None:
        self._task = task
        self.timers = Timers()
        self.keyed = KeyTimerCalls()
        self.more_due = False
        """Whether timers of keys are due that were not called yet."""

    def fire(self, stream_time: int, wall: int, limit: int) -> tuple[int, bool]:
        """Call all due timers, of those of keys at most `limit`. Returns how many of those, and whether any
        timer was called."""
        called = False
        try:
            for timer, now in self.timers.due(stream_time, wall):
                if not timer.cancelled:
                    called = True
                    timer.fire(now)
            fired = self.keyed.fire(stream_time, wall, limit) if self.keyed else 0
        except TidegateError:
            raise
        except Exception as error:
            raise in_user_code(error, f"{self._task}, a timer: ", self._task.generation) from error
        self.more_due = fired >= limit
        return fired, called or fired > 0
