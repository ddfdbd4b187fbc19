"""Drain an app and stop it: nothing is left behind in its internal topics.

1 find the run that holds the app; 2 request its slots to take no more records from sources; 3 wait until all
slots rest, every internal topic was read up to its end, and then all slots report once more that they rest,
at unchanged positions; 4 request the stop, and wait until the slots have ended; 5 compare the positions with
the ends of the internal topics.

A slot that rests writes to internal topics only because of what it reads from internal topics. So once all of
them were read up to their ends, nothing is written to them any more. The second report shows that no timers
of the last records are still to be called.

The time is bounded. If it is up, or if the run dies meanwhile, step 4 follows at once, and step 5 shows what
is left. If this process dies, the slots read their sources again when the time of the request is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError, StateError
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Log
from tidegate.runtime.driver.reset import (
    SILENT_SECONDS,
    Holder,
    end_run,
    find_holder,
    planned_slots,
    reports_again,
)
from tidegate.runtime.driver.takeover import STOP_TRIES
from tidegate.runtime.topics.control import ROLE, ControlFollower, Drain, read_control, write_control
from tidegate.runtime.topics.status import Numbers, StatusFollower
from tidegate.runtime.topics.unread import Unread, task_positions, unread
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset

POLL_SECONDS = 0.1
RETRY_SECONDS = 0.2
TIMER_MILLIS = 1000
"""Timers are called up to this time after the request, so that all slots read the request before."""
STOP_SECONDS = 30.0
LOST_SECONDS = 15.0
"""A slot that is killed is restarted within this time. If none has reported for so long, the run is dead."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Drained:
    """How a run ended, and what it left in the internal topics."""

    ran: bool
    """Whether there was a run whose slots reported."""
    drained: bool
    """Whether all records of internal topics were processed."""
    left: list[Unread]
    """What was not."""
    slots: int = 0
    """How many slots ended in order."""
    wall: int | None = None
    """For a run that was drained: the wall time in ms up to which its timers were called."""


def drain_run(log: Log, manifest: Manifest, who: str, clock: Clock, seconds: float) -> Drained:
    """Drain the run that holds the app, within a time, and stop it. `manifest` is that of the active
    generation. For an app that does not run, this returns what is left in its internal topics."""
    deadline = time.monotonic() + seconds
    reach("drain.1")
    run = _patiently(deadline, lambda: find_holder(log, manifest.app, clock))
    reports = run is not None and _patiently(deadline, lambda: _reports(log, manifest.app, run))
    drain = _Drain(log, manifest, who, clock, deadline)
    settled = drain.run() if run is not None and reports and not run.ending else None
    reach("drain.4")
    slots = 0
    if run is not None:
        stopped_by = time.monotonic() + STOP_SECONDS
        slots = _patiently(stopped_by, lambda: end_run(log, manifest.app, who, clock, STOP_SECONDS))
    reach("drain.5")
    left = _patiently(
        time.monotonic() + STOP_SECONDS,
        lambda: unread(log, manifest, task_positions(log, manifest), manifest.purged()),
    )
    wall = drain.timers_until if settled else None
    return Drained(reports, not left and settled is not False, left, slots, wall)


def undrained_error(app: str, result: Drained) -> StateError:
    """Return the error for an app that does not run any more, and has not drained."""
    records = sum(one.end - one.position for one in result.left)
    first = "".join(f": {one.topic}/{one.partition} from {one.position}" for one in result.left[:1])
    left = f"up to {records} records of its internal topics" if records else "timers that were due"
    return StateError(
        "not-drained",
        f"app {app!r} has ended with {left} not processed{first}",
        f"start the version that ran, then drain it with more time: tidegate stop {app} --drain --wait 600",
    )


def _reports(log: Log, app: str, run: Holder) -> bool:
    recently = run.last_report_ms is not None and run.last_report_ms < 1000 * SILENT_SECONDS
    return recently or reports_again(log, app, run.epoch)


class _Drain:
    """Steps 2 and 3."""

    def __init__(self, log: Log, manifest: Manifest, who: str, clock: Clock, deadline: float) -> None:
        self._log = log
        self._manifest = manifest
        self._app = manifest.app
        self._who = who
        self._clock = clock
        self._deadline = deadline
        millis = int(1000 * max(0.0, deadline - time.monotonic() + STOP_SECONDS))
        self._until = clock.now() + millis
        self.timers_until = clock.now() + TIMER_MILLIS

    def run(self) -> bool | None:
        """Return whether the app has drained in time; None if its run ended or died meanwhile."""
        while time.monotonic() < self._deadline:
            try:
                return self._run_once()
            except LogError as error:
                if not error.retryable:
                    raise
                time.sleep(RETRY_SECONDS)
        return False

    def _run_once(self) -> bool | None:
        reach("drain.2")
        epoch = self._request()
        reach("drain.3")
        with (
            closing(StatusFollower(self._log, self._app)) as status,
            closing(ControlFollower(self._log, self._app)) as control,
        ):
            slots = _Slots(status, epoch, self._until)
            seen: dict[TaskId, Position] | None = None
            while time.monotonic() < self._deadline:
                slots.poll()
                control.poll()
                stop = control.current.stop(ROLE)
                if slots.silent() or (stop.epoch >= slots.epoch and not stop.for_new_plan):
                    return None
                if control.current.epoch(ROLE) > slots.epoch:
                    slots, seen = _Slots(status, self._request(), self._until), None
                if not slots.rest(planned_slots(control.current, slots.epoch)):
                    continue
                positions = task_positions(self._log, self._manifest)
                if positions == seen:
                    return True
                seen = positions if self._read(positions) else None
                slots.forget()
        return False

    def _read(self, positions: dict[TaskId, Position]) -> bool:
        return not unread(self._log, self._manifest, positions, self._manifest.internal.values())

    def _request(self) -> int:
        """Write the request for the newest epoch: step 2. Returns that epoch."""
        for _ in range(STOP_TRIES):
            with closing(self._log.writer(f"{names.driver_id(self._app, ROLE)}.drain")) as writer:
                try:
                    epoch = read_control(self._log, self._app).epoch(ROLE)
                    entry = Drain(epoch, self._until, self.timers_until, self._who)
                    write_control(writer, self._app, {f"drain/{ROLE}": entry}, self._clock.now())
                    writer.commit()
                except FencedError:
                    continue
                return epoch
        raise LogError(
            "stop-not-written",
            f"app {self._app!r} could not be drained: {STOP_TRIES} tries met other requests",
            "try again",
        )


class _Slots:
    """What the slots of an epoch have reported."""

    def __init__(self, status: StatusFollower, epoch: int, until: int) -> None:
        self._status = status
        self._until = until
        self._heard = time.monotonic()
        self._after = Offset(0)
        self._resting: set[int] = set()
        self.epoch = epoch

    def poll(self) -> None:
        """Read new reports."""
        counts = self._status.has_read(self._after)
        for one in self._status.poll(POLL_SECONDS):
            if one.epoch != self.epoch:
                continue
            self._heard = time.monotonic()
            if counts and isinstance(one, Numbers) and one.rests_until >= self._until:
                self._resting.add(one.slot)
            else:
                self._resting.discard(one.slot)

    def silent(self) -> bool:
        return time.monotonic() > self._heard + LOST_SECONDS

    def rest(self, slots: set[int]) -> bool:
        """Return whether there are slots, and all of them have reported that they rest."""
        return bool(slots) and slots <= self._resting

    def forget(self) -> None:
        """From here on only reports count that are written later."""
        self._after, self._resting = self._status.end(), set()


def _patiently(deadline: float, act: Callable[[], T]) -> T:
    """Repeat after errors that a retry helps with, until a time."""
    while True:
        try:
            return act()
        except LogError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
