"""Rates and ages, from samples of offsets.

A rate is the rise of a sum of offsets over the last seconds. The age of the record at an offset is the time
since the end of its partition rose above that offset: samples of the end show when that was, without a read
of the record. On Kafka the markers of transactions have offsets too, and count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

WINDOW_SECONDS = 5.0
"""The time over which rates are calculated: apps commit in steps, up to seconds apart."""
FINE_SECONDS, COARSE_SECONDS, KEPT_SECONDS = 10.0, 5.0, 900.0
"""Samples of the last 10 s are all kept, older ones every 5 s, for 15 minutes."""


class Meter:
    """The rate of one counter."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def take(self, now: float, total: int) -> None:
        """Add a sample. A counter that falls was reset: its topic was created again."""
        samples = self._samples
        if samples and total < samples[-1][1]:
            samples.clear()
        samples.append((now, total))
        while len(samples) > 2 and samples[1][0] <= now - WINDOW_SECONDS:
            samples.popleft()

    @property
    def rate(self) -> float:
        """The rise per second; 0 until there are two samples."""
        if len(self._samples) < 2:
            return 0.0
        (first, low), (last, high) = self._samples[0], self._samples[-1]
        return round((high - low) / (last - first), 1) if last > first else 0.0


class Age(NamedTuple):
    """How long ago a record was appended."""

    seconds: float
    at_least: bool = False
    """Whether it was appended before the first sample, so that it is older."""


class EndHistory:
    """The end of one partition over time."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._ends: list[int] = []

    def take(self, now: float, end: int) -> None:
        """Add a sample. Samples between two equal ones show nothing and are dropped."""
        times, ends = self._times, self._ends
        if ends and end < ends[-1]:
            times.clear()
            ends.clear()
        if len(ends) >= 2 and ends[-1] == ends[-2] == end:
            times[-1] = now
            return
        times.append(now)
        ends.append(end)
        self._thin(now)

    def age(self, now: float, offset: int) -> Age:
        """Return the age of the record at an offset; 0 if there is no record there yet."""
        times, ends = self._times, self._ends
        at = bisect_right(ends, offset)  # the first sample with the record
        if at == len(ends):
            return Age(0.0)
        if at == 0:
            return Age(round(max(0.0, now - times[0]), 1), at_least=True)
        share = (offset - ends[at - 1]) / (ends[at] - ends[at - 1])
        appended = times[at - 1] + share * (times[at] - times[at - 1])
        return Age(round(max(0.0, now - appended), 1))

    def _thin(self, now: float) -> None:
        """Keep the newest samples and, of older ones, one in every 5 seconds."""
        times, ends = self._times, self._ends
        at = bisect_right(times, now - FINE_SECONDS) - 1
        if at >= 2 and times[at] - times[at - 2] < COARSE_SECONDS:
            del times[at - 1], ends[at - 1]
        if times[0] < now - KEPT_SECONDS and len(times) > 2:
            del times[0], ends[0]
