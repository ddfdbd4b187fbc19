"""How far a recalculation is, how fast it goes, and how long it still takes.

The rate is smoothed: a new value counts for as much as the time that it covers, out of the last `SMOOTHED`
seconds. The time left covers the subtopologies whose records can be counted. One that reads an internal topic
can only be counted when those that write to it have finished; until then the time left is a lower bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import msgspec

from tidegate.runtime.driver.partition_watch import DRIVER
from tidegate.runtime.topics.status import Recalculating

REPORT_SECONDS = 1.0
SMOOTHED = 5.0


class StepProgress(msgspec.Struct, frozen=True):
    """How far one subtopology is, in offsets of the topics that it reads. `to_do` is None while the
    subtopologies that write to it run."""

    component: str
    subtopology: int
    done: int
    to_do: int | None


class Progress(msgspec.Struct, frozen=True):
    """How far a recalculation is at one time."""

    round: int
    steps: list[StepProgress]
    per_second: float = 0.0
    """Records per second, smoothed; 0 before the first second."""

    @property
    def done(self) -> int:
        return _done(self.steps)

    @property
    def to_do(self) -> int:
        """Records in all, as far as they can be counted."""
        return sum(step.done if step.to_do is None else step.to_do for step in self.steps)

    @property
    def complete(self) -> bool:
        """Whether the records of all subtopologies can be counted."""
        return all(step.to_do is not None for step in self.steps)

    @property
    def seconds_left(self) -> float | None:
        """Return how long what can be counted still takes at this rate; None as long as there is no rate."""
        left = self.to_do - self.done
        if left <= 0:
            return 0.0
        return left / self.per_second if self.per_second > 0 else None

    def status(self, epoch: int, now: int) -> Recalculating:
        """Return it as a record of the status topic, at `now` in ms."""
        return Recalculating(
            epoch,
            DRIVER,
            at=now,
            round=self.round,
            done=self.done,
            to_do=self.to_do,
            complete=self.complete,
            per_second=self.per_second,
            seconds_left=self.seconds_left,
        )


def progress_text(progress: Progress | Recalculating) -> str:
    """Describe a progress in one line."""
    more = "" if progress.complete else " or more"
    text = f"{progress.done:,} of {progress.to_do:,}{more} records"
    if progress.round > 1:
        text = f"round {progress.round}, {text}"
    if progress.per_second:
        text += f", {progress.per_second:,.0f} per second"
    left = progress.seconds_left
    if left:
        text += f", {'about' if progress.complete else 'at least'} {_duration(left)} left"
    return text


def _done(steps: Sequence[StepProgress]) -> int:
    return sum(step.done for step in steps)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Meter:
    """Measures the rate of one recalculation in this process, and when a report is due."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._at = monotonic()
        self._done = 0
        self._rate: float | None = None
        self._next_report = monotonic() + REPORT_SECONDS

    def due(self) -> bool:
        """Return whether the last report is at least a second old."""
        return self._monotonic() >= self._next_report

    def start(self, steps: Sequence[StepProgress]) -> None:
        """Measure from now on, and from what was done until now: by an earlier process, or in a round
        before."""
        self._at, self._done = self._monotonic(), _done(steps)

    def measured(self, round_number: int, steps: Sequence[StepProgress]) -> Progress:
        """Return the progress, with the rate as of now."""
        now, done = self._monotonic(), _done(steps)
        passed = now - self._at
        if passed > 0:
            rate = (done - self._done) / passed
            share = 1.0 if self._rate is None else 1 - math.exp(-passed / SMOOTHED)
            self._rate = share * rate + (1 - share) * (self._rate or 0.0)
            self._at, self._done = now, done
        self._next_report = now + REPORT_SECONDS
        return Progress(round_number, list(steps), self._rate or 0.0)
