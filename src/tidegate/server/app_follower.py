"""The state of each app, kept up to date by a thread, so that no call reads its topics from their start.

A thread per app, started by the first call for it: 1 find the app's control, positions and status topics;
2 read them from their start; 3 fold what is read: the plan, the positions of tasks, the statuses of slots;
4 wake waiting calls. While the positions or status topic is missing, look for it every few seconds, and start
again with 1 when it was created. After an error, start again with 1. A returned state includes whatever was
committed before the call.
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
from tidegate.runtime.topics.upgrades import UpgradeEntry, upgrade_of
from tidegate.server.app_events import AppEvent, AppEvents
from tidegate.server.follower import Follower
from tidegate.server.follower_pool import FollowerPool, PoolSize
from tidegate.server.slot_status import SlotStatus, SlotStatuses
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset, TopicPartition

SIZE = PoolSize(soft_limit=64, hard_limit=1024, unused_seconds=300.0)
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
    statuses: SlotStatuses
    now: float
    """By `time.monotonic`."""
    epoch: int = 0
    """The newest epoch that a driver claimed, or 0. Its plan may not be written yet."""
    stop: Stop = field(default_factory=lambda: Stop(0))
    times: Mapping[str, int] = field(default_factory=dict)
    """When each key of the control topic was last written, in ms."""
    wall: int = 0
    """The wall-clock time in ms."""
    upgrade: UpgradeEntry | None = None
    """The newest upgrade."""
    events: list[AppEvent] = field(default_factory=list)
    """What happened lately, ordered by time."""

    def slot(self, number: int) -> SlotStatus:
        """The status of a slot. What a job of an older epoch published is left out."""
        found = self.statuses.slots.get(number, SlotStatus())
        return (
            found if found.epoch >= self.plan.epoch else SlotStatus(epoch=self.plan.epoch, heard=found.heard)
        )

    def restarts(self, number: int) -> int:
        """How often the slot's job was restarted within the plan's epoch."""
        attempt = self.attempts.get(number, Attempt(0, 0))
        return attempt.attempt - 1 if attempt.epoch == self.plan.epoch and attempt.attempt else 0

    def lag_by_slot(self) -> dict[int | None, int]:
        """The lag of each slot of the plan; under None that of stages and of tasks without a slot."""
        homes = {str(task): slot.slot for slot in self.plan.slots for task in slot.tasks}
        found: dict[int | None, int] = dict.fromkeys(homes.values(), 0)
        for one in self.lags:
            home = homes.get(one.task)
            found[home] = found.get(home, 0) + one.lag
        return found


@dataclass(slots=True)
class _Read:
    """What was read since the follower last started with step 1."""

    positions: dict[TopicPartition, int]
    first_ends: dict[TopicPartition, int]
    """The ends of the topics at that time."""
    control: Control = field(default_factory=Control)
    tasks: dict[TaskId, Position] = field(default_factory=dict)
    slots: SlotStatuses = field(default_factory=SlotStatuses)
    events: AppEvents = field(default_factory=lambda: AppEvents(""))


class AppFollower(Follower):
    """Follows the topics of one app."""

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

    def state(self, manifest: Manifest, seconds: float = WAIT_SECONDS, *, with_lag: bool = True) -> AppState:
        """Return the state of the app as of now. Raises LogError `replica-behind` if its topics cannot be
        read to their ends in time."""
        self.used = time.monotonic()
        deadline = self.used + seconds
        with self._changed:
            self._wait(lambda: self._read is not None or self.trouble is not None, deadline)
            partitions = [] if self._read is None else list(self._read.positions)
        ends = self._log.ends(partitions)
        with self._changed:
            self._wait(lambda: self._has_reached(ends) or self.trouble is not None, deadline)
            read = self._read
            if read is None or not self._has_reached(ends):
                raise self._behind()
            plan = read.control.plan(ROLE)
            attempts = {slot.slot: read.control.attempt(ROLE, slot.slot) for slot in plan.slots}
            tasks, slots = dict(read.tasks), _copy(read.slots)
            upgrade, events = upgrade_of(read.control), read.events.all()
            epoch, stop, times = read.control.epoch(ROLE), read.control.stop(ROLE), dict(read.control.times)
        found = lags(self._log, manifest, tasks) if with_lag else []
        now, wall = time.monotonic(), self._clock.now()
        return AppState(
            self.app, plan, attempts, found, slots, now, epoch, stop, times, wall, upgrade, events
        )

    def _has_reached(self, ends: Mapping[TopicPartition, Offset]) -> bool:
        read = self._read
        return read is not None and all(read.positions.get(one, end) >= end for one, end in ends.items())

    def _progress(self) -> str:
        return f"this server has not read the topics of app {self.app!r} up to their ends yet"

    def _recover(self, error: TidegateError) -> bool:  # noqa: ARG002 - after any error
        with self._changed:
            self._read = None
        return False

    def _follow(self) -> None:
        """Steps 1 to 4. Only the control topic must exist: the others are created later, at the first
        start."""
        topics = [self._control, *self._later_topics()]
        complete = len(topics) == 3
        starts = {one: Offset(self._log.describe(one.topic).starts[0]) for one in topics}
        ends = self._log.ends(topics)
        read = _Read({one: int(at) for one, at in starts.items()}, {one: int(at) for one, at in ends.items()})
        read.events = AppEvents(self.app)
        with closing(self._log.reader(starts)) as reader:
            with self._changed:
                self._read = read
                self._clear_trouble()
                self._changed.notify_all()
            look = time.monotonic() + LOOK_SECONDS
            while not self._ended.is_set():
                if not complete and time.monotonic() >= look:
                    if len(self._later_topics()) + 1 > len(topics):
                        return
                    look = time.monotonic() + LOOK_SECONDS
                fetched = reader.poll(POLL_SECONDS)
                if fetched:
                    with self._changed:
                        for part in fetched:
                            self._apply(read, part)
                        self._changed.notify_all()

    def _later_topics(self) -> list[TopicPartition]:
        """The topics that a start creates after the control topic, as far as they exist."""
        return [
            one for one in (self._positions, self._status) if find_topic(self._log, one.topic) is not None
        ]

    def _apply(self, read: _Read, part: Fetched) -> None:
        live = read.positions[part.partition] >= read.first_ends[part.partition]
        if part.partition == self._control:
            read.control.take([part])
            read.events.take_control(part)
        elif part.partition == self._positions:
            keys, values = part.batch.column(2).to_pylist(), part.batch.column(3).to_pylist()
            for key, value in zip(keys, values, strict=True):
                fold_position(read.tasks, key, value)
        else:
            self._apply_statuses(read, part, live=live)
        read.positions[part.partition] = int(part.next)

    def _apply_statuses(self, read: _Read, part: Fetched, *, live: bool) -> None:
        """Apply statuses with the time at which their slots were last heard.

        A record that was written after the follower started is new, whatever the clocks of other machines
        show. An older one is as old as its timestamp; if that is far in the future, its age is unknown and it
        does not count as a sign of life."""
        now, wall = time.monotonic(), self._clock.now()
        offsets, times, values = (part.batch.column(index).to_pylist() for index in (0, 1, 3))
        for offset, at, value in zip(offsets, times, values, strict=True):
            one = decoded(value)
            if one is None:
                continue
            age = (wall - at) / 1000
            heard = now if live else now - (UNKNOWN_AGE if age < -SILENT_SECONDS else max(0.0, age))
            read.slots.take(one, heard, counts=live, at=at)
            read.events.take_status(one, offset, at)


class AppFollowers:
    """The followers of a server, by app."""

    def __init__(self, log: Log, clock: Clock, size: PoolSize = SIZE) -> None:
        self._log = log
        self._clock = clock
        self._pool: FollowerPool[AppFollower] = FollowerPool(size)

    def state(self, manifest: Manifest, seconds: float = WAIT_SECONDS, *, with_lag: bool = True) -> AppState:
        """Return the state of an app as of now. With `with_lag`, raises LogError `no-such-topic` while a
        topic that the app reads is missing."""
        follower = self._pool.get(manifest.app, lambda: AppFollower(self._log, manifest.app, self._clock))
        return follower.state(manifest, seconds, with_lag=with_lag)

    def end(self) -> None:
        """Wake all waiting calls and refuse new ones."""
        self._pool.end()

    def close(self) -> None:
        self._pool.close()


def _copy(statuses: SlotStatuses) -> SlotStatuses:
    """A copy that the thread does not change."""
    slots = {number: replace(one) for number, one in statuses.slots.items()}
    counts = statuses.warnings.copy(), statuses.warned.copy(), statuses.failures.copy()
    return SlotStatuses(slots, *counts, statuses.last_failure, statuses.recalculating)
