"""The timers of a task: those that its steps schedule, and those of keys."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.log.positions import TaskId
from tidegate.runtime.output.on_error import in_user_code
from tidegate.runtime.task.key_timers import KeyCalls
from tidegate.runtime.task.timers import Timers


class TaskTimers:
    """Calls what is due."""

    def __init__(self, task: TaskId) -> None:
        self._task = task
        self.timers = Timers()
        self.keyed = KeyCalls()
        self.left = False
        """Whether timers of keys that are due were not called yet."""

    def fire(self, stream_time: int, wall: int, limit: int) -> tuple[int, bool]:
        """All that is due, of timers of keys at most `limit`. How many of those, and whether any."""
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
        self.left = fired >= limit
        return fired, called or fired > 0
