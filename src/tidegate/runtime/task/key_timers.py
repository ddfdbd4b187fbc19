"""Calls for the timers of keys.

Of several stores the first that has a due timer is next, and in a store the first timer by time and key. That
is looked at again after every call, since a call may set and cancel timers: so the order is the same wherever
a limit cut it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.state.builder import TimeKind
from tidegate.state.key_timers import DUE_AT_ONCE, KeyTimers, TimerEntry

Call = Callable[[Any, int], None]
"""What is called for a key and its time."""


@dataclass(frozen=True, slots=True)
class _Watched:
    timers: KeyTimers[Any]
    by: TimeKind
    call: Call


class KeyCalls:
    """The timers of keys of one task."""

    def __init__(self) -> None:
        self._all: list[_Watched] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, timers: KeyTimers[Any], by: TimeKind, call: Call) -> None:
        self._all.append(_Watched(timers, by, call))

    def fire(self, stream_time: int, wall: int, limit: int = DUE_AT_ONCE) -> int:
        """Call for the timers that are due by their clock, at most `limit` of them. How many; if it is the
        limit, there may be more."""
        clocks = {"stream": stream_time, "wall": wall}
        fired = 0
        while fired < limit:
            for number, watched in enumerate(self._all):
                due = watched.timers.next_due(clocks[watched.by], limit - fired)
                if due:
                    fired += self._fire(watched, due, self._all[:number], clocks)
                    break
            else:
                break
        return fired

    def _fire(
        self, watched: _Watched, due: list[TimerEntry], before: Sequence[_Watched], clocks: dict[str, int]
    ) -> int:
        """In order, until something else is next."""
        timers, fired = watched.timers, 0
        for place, following in zip(due, [*due[1:], None], strict=True):
            key = timers.take(place)
            if key is None:
                continue
            watched.call(key, place[0])
            fired += 1
            if following is None:
                break
            if timers.soonest < following or any(one.timers.soonest[0] <= clocks[one.by] for one in before):
                timers.soonest = min(timers.soonest, following)
                break
        return fired
