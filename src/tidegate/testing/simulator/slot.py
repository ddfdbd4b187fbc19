"""A slot in small: one writer, some tasks, one incarnation. What becomes of it is decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate import names
from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Reader, Writer
from tidegate.log.records import ReadRow, rows_of
from tidegate.runtime.commit import commit
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.protocol import RestoreListener
from tidegate.state.restore import Restore
from tidegate.testing.simulator.logs import SimLog
from tidegate.testing.simulator.program import APP, BUILDERS, INPUT, changelog
from tidegate.testing.simulator.task import SimTask, WatchedState
from tidegate.testing.simulator.violation import demand
from tidegate.types import Offset, TopicPartition

FOREVER = 1e9
LAZY = Limits(commit_seconds=FOREVER, idle_seconds=FOREVER, gathered_bytes=1, sync=False)
EAGER = replace(LAZY, commit_seconds=0.0, idle_seconds=0.0, commit_bytes=1, expire_per_commit=1)


@dataclass(frozen=True, slots=True)
class Site:
    """What all slots stand on."""

    log: SimLog
    clock: Clock
    root: Path
    stores: tuple[str, ...]
    watch: Callable[[StateManager], None]
    listener: Callable[[Slot, int], RestoreListener]


@dataclass(frozen=True, slots=True)
class Place:
    """Which slot it is: attempt k of slot n in an epoch, on a host, with some tasks."""

    number: int
    epoch: int
    attempt: int
    host: int
    partitions: tuple[int, ...]

    @property
    def writer_id(self) -> str:
        return names.writer_id(APP, 1, self.epoch, self.number)


class Slot:
    """One incarnation of a slot.

    Its start: 1 `open_writer`, which fences whoever held the id; then the world fences the writers of older
    epochs; 2 `read_positions`, to the end; 3 `turn`, task by task, until all run.
    """

    def __init__(self, site: Site, place: Place, tag: int) -> None:
        self.place = place
        self.tag = tag
        self.zombie = False
        self.dead = False
        self.tasks: dict[int, SimTask] = {}
        self._site = site
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._buffers: dict[int, list[ReadRow]] = {}

    def __str__(self) -> str:
        place = self.place
        return f"{'zombie' if self.zombie else 'slot'} {place.epoch}.{place.number}#{self.tag}"

    def home(self, partition: int) -> Path:
        """The folder of a task on the slot's host."""
        return self._site.root / f"host{self.place.host}" / f"0_{partition}"

    # --- start ----------------------------------------------------------------------------------------

    def open_writer(self) -> None:
        self._writer = self._site.log.writer(self.place.writer_id)

    def read_positions(self, start: int, limits: Limits) -> None:
        read_at = self._site.clock.now()
        positions = read_positions(self._site.log, APP, start)
        for partition in self.place.partitions:
            task = task_id(partition)
            demand(task in positions, "I1", f"{self} found no position of {task}")
            self.tasks[partition] = self._task(task, positions[task], read_at, limits)

    def _task(self, task: TaskId, at: Position, read_at: int, limits: Limits) -> SimTask:
        site, place = self._site, self.place
        owner = Owner(APP, task, site.log.id, place.epoch, place.attempt)
        state = WatchedState(owner, self.home(task.partition), site.clock, limits)
        state.watch = site.watch
        for store in site.stores:
            state.register(BUILDERS[store], changelog(store))
        restore = Restore(state, site.log, at, site.listener(self, task.partition), read_at=read_at)
        return SimTask(task, self.tag, state, restore, at)

    # --- work -----------------------------------------------------------------------------------------

    def running(self) -> list[SimTask]:
        return [task for task in self.tasks.values() if task.running]

    def restoring(self) -> list[SimTask]:
        return [task for task in self.tasks.values() if not task.running]

    def process(self, partition: int, count: int) -> int:
        """Take up to this many inputs in a task. How many there were."""
        task, taken = self.tasks[partition], 0
        while taken < count and (row := self._next_input(partition)) is not None:
            task.take(row)
            taken += 1
        return taken

    def commit(self, limits: Limits) -> None:
        """Commit what the running tasks did."""
        tasks = self.running()
        for task in tasks:
            task.state.limits = limits
        assert self._writer is not None  # noqa: S101 - its start opens it first
        commit(APP, self._site.log, self._writer, tasks, self._site.clock)

    def has_changes(self) -> bool:
        """Whether a commit would have something to write."""
        return any(task.moved() or task.state.changed() for task in self.running())

    # --- the end --------------------------------------------------------------------------------------

    def die(self) -> None:
        """The process is killed: what is not on disk or in the log is gone; its transaction stays open."""
        self.dead = True
        for task in self.tasks.values():
            task.state.drop()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def fail(self) -> None:
        """Something went wrong: every task is dropped, and the writer is closed."""
        if self._writer is not None:
            with suppress(LogError):
                self._writer.close()
        self.die()

    def close(self) -> None:
        """A clean stop, after a commit: what the log has becomes durable."""
        for task in self.tasks.values():
            task.state.close()
        self.fail()

    def _next_input(self, partition: int) -> ReadRow | None:
        if self._reader is None:
            starts = {TopicPartition(INPUT, number): Offset(task.next) for number, task in self.tasks.items()}
            self._reader = self._site.log.reader(starts)
            self._buffers = {number: [] for number in self.tasks}
        buffer = self._buffers[partition]
        while not buffer and (page := self._reader.poll(0)):
            for fetched in page:
                self._buffers[fetched.partition.partition] += rows_of(fetched.batch)
        return buffer.pop(0) if buffer else None


def task_id(partition: int) -> TaskId:
    return TaskId(APP, 1, 0, partition)
