"""Call the timers of keys.

Among several stores, the first one with a due timer is next; within a store, the first timer by time and key.
This is checked again after every call, since a call may set and cancel timers: so the order does not depend
on where a limit interrupts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.state.builder import TimeKind
from tidegate.state.key_timers import DUE_AT_ONCE, KeyTimers, TimerEntry

Call = Callable[[Any, int], None]
"""The function to call for a key and its time."""


@dataclass(frozen=True, slots=True)
class _TimerCall:
    timers: KeyTimers[Any]
    by: TimeKind
    call: Call


class KeyTimerCalls:
    """The timers of keys of one task."""

    def __init__(self) -> None:
        self._all: list[_TimerCall] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, timers: KeyTimers[Any], by: TimeKind, call: Call) -> None:
        self._all.append(_TimerCall(timers, by, call))

    def fire(self, stream_time: int, wall: int, limit: int = DUE_AT_ONCE) -> int:
        """Call the timers that are due by their clock, at most `limit`. Returns how many; if that is the
        limit, there may be more."""
        clocks = {"stream": stream_time, "wall": wall}
        fired = 0
        while fired < limit:
            for number, timer_call in enumerate(self._all):
                due = timer_call.timers.next_due(clocks[timer_call.by], limit - fired)
                if due:
                    fired += self._fire(timer_call, due, self._all[:number], clocks)
                    break
            else:
                break
        return fired

    def _fire(
        self,
        timer_call: _TimerCall,
        due: list[TimerEntry],
        before: Sequence[_TimerCall],
        clocks: dict[str, int],
    ) -> int:
        """Call due timers in order, until another timer is next."""
        timers, fired = timer_call.timers, 0
        for entry, upcoming in zip(due, [*due[1:], None], strict=True):
            key = timers.take(entry)
            if key is None:
                continue
            timer_call.call(key, entry[0])
            fired += 1
            if upcoming is None:
                break
            if timers.soonest < upcoming or any(one.timers.soonest[0] <= clocks[one.by] for one in before):
                timers.soonest = min(timers.soonest, upcoming)
                break
        return fired
