"""What a server knows of each app without reading its topics from their start for every call.

A thread per app, begun when it is first asked for: 1 look at the app's control, positions and status topics;
2 read them from their start; 3 fold what comes: what is in force, where each task stands, how each slot does;
4 wake who waits. A status topic that is missing is looked for every few seconds; when it is there, begin
again with 1. When the log fails, say so and begin again with 1, ever more slowly. An answer holds whatever
was committed when it was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from tidegate.clock import Clock
from tidegate.errors import TidegateError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.positions import Position, TaskId, fold_position
from tidegate.log.protocol import Fetched, Log
from tidegate.runtime.driver.slot_overview import SILENT_SECONDS
from tidegate.runtime.topics.control import ROLE, Attempt, Control, Plan, Stop
from tidegate.runtime.topics.lag import Lag, lags
from tidegate.runtime.topics.status import decoded
from tidegate.server.follower import Follower
from tidegate.server.follower_pool import FollowerPool, PoolSize
from tidegate.server.slot_status import SlotStatus, SlotStatuses
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset, TopicPartition

SIZE = PoolSize(most=64, limit=1024, unused_seconds=300.0)
LOOK_SECONDS = 2.0
POLL_SECONDS = 0.2
WAIT_SECONDS = 10.0
UNKNOWN_AGE = 2 * SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class AppState:
    """An app at one time."""

    app: str
    plan: Plan
    attempts: Mapping[int, Attempt]
    lags: list[Lag]
    seen: SlotStatuses
    now: float
    """Of `time.monotonic`."""
    epoch: int = 0
    """The newest that a driver claimed; 0 before the first. Its plan may not be written yet."""
    stop: Stop = field(default_factory=lambda: Stop(0))
    times: Mapping[str, int] = field(default_factory=dict)
    """When each entry of the control topic was written, in ms."""
    wall: int = 0
    """The time in ms, as the records have it."""

    def slot(self, number: int) -> SlotStatus:
        """Of the plan's epoch or a newer one: what an older job published is no news of this one."""
        found = self.seen.slots.get(number, SlotStatus())
        return (
            found if found.epoch >= self.plan.epoch else SlotStatus(epoch=self.plan.epoch, heard=found.heard)
        )

    def restarts(self, number: int) -> int:
        """How often the slot's job was started again within the plan's epoch."""
        attempt = self.attempts.get(number, Attempt(0, 0))
        return attempt.attempt - 1 if attempt.epoch == self.plan.epoch and attempt.attempt else 0

    def lag_by_slot(self) -> dict[int | None, int]:
        """Of each slot of the plan. Under None: of stages, and of what no slot has yet."""
        homes = {str(task): slot.slot for slot in self.plan.slots for task in slot.tasks}
        found: dict[int | None, int] = dict.fromkeys(homes.values(), 0)
        for one in self.lags:
            home = homes.get(one.task)
            found[home] = found.get(home, 0) + one.lag
        return found


@dataclass(slots=True)
class _Read:
    """What was read since the follower began, or began again."""

    at: dict[TopicPartition, int]
    began: dict[TopicPartition, int]
    """Where the topics ended then."""
    control: Control = field(default_factory=Control)
    positions: dict[TaskId, Position] = field(default_factory=dict)
    slots: SlotStatuses = field(default_factory=SlotStatuses)


class AppFollower(Follower):
    """One app: the thread that follows it, and what it knows."""

    retry_seconds = 0.5

    def __init__(self, log: Log, app: str, clock: Clock) -> None:
        super().__init__(f"app {app!r}", f"tidegate-app-{app}")
        self.app = app
        self._log = log
        self._clock = clock
        self._status, self._positions, self._control = (
            TopicPartition(name(app), 0) for name in (names.status, names.positions, names.control)
        )
        self._read: _Read | None = None
        self._thread.start()

    def seen(self, manifest: Manifest, seconds: float = WAIT_SECONDS, *, with_lag: bool = True) -> AppState:
        """The app as of now, with its lag from the ends of what it reads. LogError `replica-behind` if the
        topics cannot be read up to here in time."""
        self.used = time.monotonic()
        deadline = self.used + seconds
        with self._changed:
            self._wait(lambda: self._read is not None or self.trouble is not None, deadline)
            following = list(self._read.at) if self._read is not None else []
        ends = self._log.ends(following)
        with self._changed:
            self._wait(lambda: self._holds(ends) or self.trouble is not None, deadline)
            read = self._read
            if read is None or not self._holds(ends):
                raise self._behind()
            plan = read.control.plan(ROLE)
            attempts = {slot.slot: read.control.attempt(ROLE, slot.slot) for slot in plan.slots}
            positions, slots = dict(read.positions), _copied(read.slots)
            epoch, stop, times = read.control.epoch(ROLE), read.control.stop(ROLE), dict(read.control.times)
        found = lags(self._log, manifest, positions) if with_lag else []
        now, wall = time.monotonic(), self._clock.now()
        return AppState(self.app, plan, attempts, found, slots, now, epoch, stop, times, wall)

    def _holds(self, ends: Mapping[TopicPartition, Offset]) -> bool:
        read = self._read
        return read is not None and all(read.at.get(one, end) >= end for one, end in ends.items())

    def _progress(self) -> str:
        return f"this server has not read the topics of app {self.app!r} up to their ends yet"

    def _recover(self, error: TidegateError) -> bool:  # noqa: ARG002 - whatever it is, all is read again
        with self._changed:
            self._read = None
        return False

    def _follow(self) -> None:
        """Steps 1 to 4. Without a status topic nothing is known of the slots, and without positions the app
        never ran; the control topic must be there."""
        topics = [self._control, *self._later_topics()]
        whole = len(topics) == 3
        starts = {one: Offset(self._log.describe(one.topic).starts[0]) for one in topics}
        ends = self._log.ends(topics)
        read = _Read({one: int(at) for one, at in starts.items()}, {one: int(at) for one, at in ends.items()})
        with closing(self._log.reader(starts)) as reader:
            with self._changed:
                self._read = read
                self._clear_trouble()
                self._changed.notify_all()
            look = time.monotonic() + LOOK_SECONDS
            while not self._ended.is_set():
                if not whole and time.monotonic() >= look:
                    if len(self._later_topics()) + 1 > len(topics):
                        return
                    look = time.monotonic() + LOOK_SECONDS
                fetched = reader.poll(POLL_SECONDS)
                if fetched:
                    with self._changed:
                        for part in fetched:
                            self._take(read, part)
                        self._changed.notify_all()

    def _later_topics(self) -> list[TopicPartition]:
        """Those that are there of the topics that a start creates after the control topic."""
        return [
            one for one in (self._positions, self._status) if find_topic(self._log, one.topic) is not None
        ]

    def _take(self, read: _Read, part: Fetched) -> None:
        live = read.at[part.partition] >= read.began[part.partition]
        if part.partition == self._control:
            read.control.take([part])
        elif part.partition == self._positions:
            keys, values = part.batch.column(2).to_pylist(), part.batch.column(3).to_pylist()
            for key, value in zip(keys, values, strict=True):
                fold_position(read.positions, key, value)
        else:
            self._take_status(read, part, live=live)
        read.at[part.partition] = int(part.next)

    def _take_status(self, read: _Read, part: Fetched, *, live: bool) -> None:
        """What lies there already is as old as its time says; one far ahead of this clock may be any age, so
        it is no sign of life. What comes is new, whatever the clocks of other machines say."""
        now, wall = time.monotonic(), self._clock.now()
        times, values = part.batch.column(1).to_pylist(), part.batch.column(3).to_pylist()
        for at, value in zip(times, values, strict=True):
            one = decoded(value)
            if one is None:
                continue
            age = (wall - at) / 1000
            heard = now if live else now - (UNKNOWN_AGE if age < -SILENT_SECONDS else max(0.0, age))
            read.slots.take(one, heard, counts=live, at=at)


class AppFollowers:
    """The followers of a server, by app."""

    def __init__(self, log: Log, clock: Clock, size: PoolSize = SIZE) -> None:
        self._log = log
        self._clock = clock
        self._pool: FollowerPool[AppFollower] = FollowerPool(size)

    def seen(self, manifest: Manifest, *, with_lag: bool = True) -> AppState:
        """An app as of now. Its lag cannot be known while a topic that it reads is missing."""
        follower = self._pool.get(manifest.app, lambda: AppFollower(self._log, manifest.app, self._clock))
        return follower.seen(manifest, with_lag=with_lag)

    def end(self) -> None:
        """Wake all waiting calls and refuse new ones."""
        self._pool.end()

    def close(self) -> None:
        self._pool.close()


def _copied(seen: SlotStatuses) -> SlotStatuses:
    """So that it stays as it is while others come."""
    slots = {number: replace(one) for number, one in seen.slots.items()}
    counted = seen.warnings.copy(), seen.warned.copy(), seen.failures.copy()
    return SlotStatuses(slots, *counted, seen.last_failure)
