"""Fifteen minutes of numbers in steps of five seconds, for the charts of a page that was just opened.

All series share their times. Where nobody sampled for a while, each series has one point without a value, so
that no chart draws a line across the hole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

STEP_MS = 5_000
STEPS = 180
MOST_SERIES = 20_000
"""Series beyond these are left out; each is below 2 KiB."""
LATE_MS = STEP_MS // 10

SeriesName = tuple[str, ...]
"""Such as ("tasks", "orders", "orders.g1/0_1", "lag")."""


class SummaryHistory:
    """The series. Not thread-safe."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=STEPS)
        self._series: dict[SeriesName, deque[float | None]] = {}

    def is_due(self, now: int) -> bool:
        """Whether the next step has come; `now` is in milliseconds."""
        return not self._times or now < self._times[-1] or now - self._times[-1] >= STEP_MS - LATE_MS

    def take(self, now: int, values: Mapping[SeriesName, float | None]) -> None:
        """Add a step."""
        if self._times and now < self._times[-1]:  # the clock was set back
            self._times.clear()
            self._series.clear()
        while self._times and self._times[0] <= now - STEP_MS * STEPS:
            self._times.popleft()
            for series in self._series.values():
                series.popleft()
        if self._times and now - self._times[-1] > 2 * STEP_MS:
            self._append(self._times[-1] + STEP_MS, {})
        self._append(now, values)

    def as_json(self) -> dict[str, Any]:
        """Return the times, and the series in nested objects."""
        found: dict[str, Any] = {name: {} for name in ("topics", "apps", "tasks", "gates")}
        for name, series in self._series.items():
            place = found
            for part in name[:-1]:
                place = place.setdefault(part, {})
            place[name[-1]] = list(series)
        return {"step_ms": STEP_MS, "times": list(self._times), **found}

    def _append(self, at: int, values: Mapping[SeriesName, float | None]) -> None:
        for name in values:
            if name not in self._series and len(self._series) < MOST_SERIES:
                self._series[name] = deque([None] * len(self._times), maxlen=STEPS)
        self._times.append(at)
        for name, series in list(self._series.items()):
            series.append(values.get(name))
            if name not in values and all(value is None for value in series):
                del self._series[name]
