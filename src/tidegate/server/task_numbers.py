"""The rate and the lag of each stream task, in records and in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from tidegate.runtime.topics.lag import Lag
from tidegate.server.app_follower import AppState
from tidegate.server.meters import Age, EndHistory, Meter
from tidegate.types import TopicPartition

MOST_PARTITIONS = 5_000
"""Partitions beyond these have no history of their ends: ages there are unknown."""


class TaskNumbers(msgspec.Struct, frozen=True):
    """One stream task."""

    component: str
    generation: int
    subtopology: int
    partition: int
    slot: int | None
    host: str
    state: str
    rate: float
    """Records that it has processed per second, by its committed positions."""
    lag: int
    lag_seconds: float | None
    lag_at_least: bool


class AppNumbers(msgspec.Struct, frozen=True):
    """The sum of an app's tasks."""

    rate: float
    """Records per second of source topics, without internal ones and those of gates."""
    lag_seconds: float | None
    lag_at_least: bool
    tasks: dict[str, TaskNumbers]


class TaskMeters:
    """Samples the positions of all tasks. Not thread-safe."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, EndHistory] = {}
        self._tasks: dict[tuple[str, str], Meter] = {}
        self._apps: dict[str, Meter] = {}

    def sample(self, app: AppState, sources: set[str]) -> AppNumbers:
        """Take the positions of an app; `sources` are the topics whose records count for its rate."""
        now = time.monotonic()
        by_task: dict[str, list[Lag]] = {}
        for one in app.lags:
            by_task.setdefault(one.task, []).append(one)
            self._take_end(now, one)
        self._apps.setdefault(app.app, Meter()).take(
            now, sum(one.position for one in app.lags if one.topic in sources)
        )
        tasks = {}
        homes = {str(task): (slot, task) for slot in app.plan.slots for task in slot.tasks}
        for name, (planned, task) in homes.items():
            own = by_task.get(name, [])
            meter = self._tasks.setdefault((app.app, name), Meter())
            meter.take(now, sum(one.position for one in own))
            age = self._age(now, own)
            slot = app.slot(planned.slot)
            tasks[name] = TaskNumbers(
                task.component,
                task.generation,
                task.subtopology,
                task.partition,
                planned.slot,
                slot.host or planned.host,
                slot.state(app.now),
                meter.rate,
                sum(one.lag for one in own),
                None if age is None else age.seconds,
                age is not None and age.at_least,
            )
        age = self._age(now, app.lags)
        return AppNumbers(
            self._apps[app.app].rate,
            None if age is None else age.seconds,
            age is not None and age.at_least,
            tasks,
        )

    def forget(self, apps: Iterable[str]) -> None:
        """Drop what is known of all other apps."""
        kept = set(apps)
        self._apps = {app: meter for app, meter in self._apps.items() if app in kept}
        self._tasks = {name: meter for name, meter in self._tasks.items() if name[0] in kept}

    def _take_end(self, now: float, one: Lag) -> None:
        partition = TopicPartition(one.topic, one.partition)
        history = self._ends.get(partition)
        if history is None:
            if len(self._ends) >= MOST_PARTITIONS:
                return
            history = self._ends[partition] = EndHistory()
        history.take(now, one.position + one.lag)

    def _age(self, now: float, lags: Iterable[Lag]) -> Age | None:
        """The age of the oldest record that waits; None if it is unknown."""
        oldest = Age(0.0)
        for one in lags:
            if not one.lag:
                continue
            history = self._ends.get(TopicPartition(one.topic, one.partition))
            if history is None:
                return None
            oldest = max(oldest, history.age(now, one.position))
        return oldest
