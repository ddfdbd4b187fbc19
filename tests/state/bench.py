"""A slot for tests of its tasks' state: a real log, real stores, and tasks that do what the test calls.

bench = Bench(tmp_path)
task = bench.start(COUNTS)      # opens a writer, reads the position, restores
task.put(COUNTS, "ada", 1)      # one source record, one change
task.commit()
task.drop()                     # what a crash leaves: the log, and what was persisted
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from tidegate.clock import ManualClock
from tidegate.log import names
from tidegate.log.positions import Position, TaskId, position_row, positions_topic, read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import fold, read_between
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.slot.commit import commit
from tidegate.state.builder import StoreBuilder
from tidegate.state.changelog import changelog_spec
from tidegate.state.key_value import KeyValueStore
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.restore import Restore
from tidegate.types import Offset, TopicPartition

K = TypeVar("K")
V = TypeVar("V")

APP = "shop"
OUT = "out"
AT_EVERY_COMMIT = Limits(commit_seconds=0)
AT_EVERY_TURN = Limits(commit_bytes=1, replay_buffer_bytes=1)
PAGE_BY_PAGE = Limits(replay_buffer_bytes=1)
SELDOM = Limits(commit_seconds=3600)


class Listener:
    """Writes down the events of a restore, as (event, store, numbers or reason)."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_start(self, store: str, partition: int, start: int, end: int) -> None:
        self.events.append(("start", store, partition, start, end))

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None:
        self.events.append(("batch", store, partition, end, count))

    def on_end(self, store: str, partition: int, total: int) -> None:
        self.events.append(("end", store, partition, total))

    def on_suspended(self, store: str, partition: int, total: int) -> None:
        self.events.append(("suspended", store, partition, total))

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        self.events.append(("discard", store, partition, reason))

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None:
        self.events.append(("gap", store, partition, "kept" if kept else "emptied"))

    def span(self, store: str) -> tuple[int, int]:
        """From which offset to which a store was restored."""
        [(start, end)] = [event[3:] for event in self.events if event[:2] == ("start", store)]
        return start, end

    def restored(self, store: str) -> int:
        """How many records came back from the changelog."""
        return sum(event[4] for event in self.events if event[:2] == ("batch", store))

    def discards(self) -> dict[str, str]:
        """Why stores were thrown away."""
        return {event[1]: event[3] for event in self.events if event[0] == "discard"}

    def gaps(self) -> dict[str, str]:
        """What became of stores without changelog that missed a commit."""
        return {event[1]: event[3] for event in self.events if event[0] == "gap"}


class Task:
    """A stream task: each thing that it does is one source record."""

    def __init__(self, slot: Slot, state: StateManager, at: Position, read_at: int) -> None:
        self.id = state.owner.task
        self.state = state
        self.listener = Listener()
        self.at = at
        self.restore = Restore(state, slot.bench.log, at, self.listener, read_at=read_at)
        self.offset = at.sources["in"][self.id.partition]
        self._slot = slot
        self._committed = self.offset
        self._outputs: list[Row] = []

    def put(self, store: StoreBuilder[KeyValueStore[K, V]], key: K, value: V | None) -> None:
        self.state.store(store).put(key, value)
        self.offset += 1

    def delete(self, store: StoreBuilder[KeyValueStore[K, V]], key: K) -> None:
        self.put(store, key, None)

    def emit(self, key: bytes, value: bytes) -> None:
        self._outputs.append(Row(key, value, 5))
        self.offset += 1

    def rows(self, store: StoreBuilder[KeyValueStore[K, V]]) -> dict[K, V]:
        return dict(self.state.store(store).all())

    def commit(self) -> None:
        """Commit the whole slot."""
        self._slot.commit()

    def drop(self) -> None:
        self.state.drop()

    def close(self) -> None:
        self.state.close()

    # --- what a commit asks of a task

    def send_time(self) -> None:
        """It has no internal topics."""

    def moved(self) -> bool:
        return self.offset > self._committed

    def outputs(self) -> Iterable[tuple[TopicPartition, pa.RecordBatch]]:
        return [(TopicPartition(OUT, self.id.partition), to_batch(self._outputs))] if self._outputs else []

    def position(self, changelogs: dict[str, int]) -> Position:
        return Position(sources={"in": {self.id.partition: self.offset}}, changelogs=changelogs)

    def committed(self, position: Position) -> None:
        self._committed = position.sources["in"][self.id.partition]
        self._outputs = []


class Slot:
    """Some tasks and their one writer. A slot of the same name fences the one before."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.writer = bench.log.writer(name)
        self.tasks: list[Task] = []

    def open(
        self,
        *stores: StoreBuilder[Any],
        partition: int = 0,
        host: str = "here",
        limits: Limits | None = None,
        at: Position | None = None,
        owner: Owner | None = None,
        attempt: int = 0,
    ) -> Task:
        """A task that is not restored yet. `at` stands in for the position that the log holds."""
        bench = self.bench
        bench.create(*stores)
        task, read_at = TaskId("totals", 1, 0, partition), bench.clock.now()
        at = at or self._position(task, stores)
        owner = owner or Owner(APP, task, bench.log.id, attempt=attempt)
        state = StateManager(owner, bench.folder / host / str(partition), bench.clock, limits)
        for store in stores:
            state.register(store, bench.changelog_of(store).topic if store.changelog else None)
        opened = Task(self, state, at, read_at)
        self.tasks.append(opened)
        opened.restore.open()
        return opened

    def start(self, *stores: StoreBuilder[Any], **options: Any) -> Task:
        """A task at work: opened and restored."""
        task = self.open(*stores, **options)
        task.restore.run(patience=5)
        return task

    def commit(self) -> None:
        commit(APP, self.bench.log, self.writer, self.tasks, self.bench.clock)

    def drop(self) -> None:
        """What follows every failure: all tasks forget what is not on disk."""
        for task in self.tasks:
            task.drop()

    def _position(self, task: TaskId, stores: Iterable[StoreBuilder[Any]]) -> Position:
        """Read to the end, now that the writer is open; a task that has none gets a first position."""
        bench = self.bench
        found = read_positions(bench.log, APP).get(task)
        if found is None:
            partitions = {
                store.name: bench.changelog_of(store, task.partition) for store in stores if store.changelog
            }
            ends = bench.log.ends(partitions.values(), committed=False)
            offsets = {name: int(ends[partition]) for name, partition in partitions.items()}
            found = Position(sources={"in": {task.partition: 0}}, changelogs=offsets)
            row = position_row(task, found, bench.clock.now())
            self.writer.append(TopicPartition(names.positions(APP), 0), to_batch([row]))
            self.writer.commit()
        return found


class BenchLog(Log, Protocol):
    """A log that compacts a topic on request."""

    def compact(self, topic: str) -> None: ...

    def upkeep(self) -> None: ...


class Bench:
    """One log, in memory or one that other processes open too, and folders for any number of hosts."""

    def __init__(
        self,
        folder: Path,
        log: BenchLog | None = None,
        clock: ManualClock | None = None,
        *,
        partitions: int = 1,
    ) -> None:
        self.folder = folder
        self.clock = clock or ManualClock()
        self.log = log or SqliteLog(clock=self.clock, upkeep=False)
        self.partitions = partitions
        self._slots: list[Slot] = []
        self.log.create(positions_topic(APP))
        self.log.create(TopicSpec(OUT, partitions))

    def create(self, *stores: StoreBuilder[Any]) -> None:
        """The topics that the stores need."""
        for store in stores:
            if store.changelog:
                self.log.create(changelog_spec(self.changelog_of(store).topic, self.partitions, store.config))

    def slot(self, name: str = "slot") -> Slot:
        self._slots.append(Slot(self, name))
        return self._slots[-1]

    def open(self, *stores: StoreBuilder[Any], **options: Any) -> Task:
        """A task, not restored yet, in a slot of its own; it fences the one before."""
        return self.slot().open(*stores, **options)

    def start(self, *stores: StoreBuilder[Any], **options: Any) -> Task:
        """A task at work in a slot of its own; it fences the one before."""
        return self.slot().start(*stores, **options)

    def changelog_of(self, store: StoreBuilder[Any], partition: int = 0) -> TopicPartition:
        return TopicPartition(names.changelog(APP, store.name), partition)

    def read(self, partition: TopicPartition, start: int | None = None) -> list[ReadRow]:
        """Everything that a committed reader sees in a partition."""
        if start is None:
            start = self.log.describe(partition.topic).starts[partition.partition]
        end = self.log.ends([partition])[partition]
        return [row for batch in read_between(self.log, partition, start, end) for row in rows_of(batch)]

    def records(self, partition: TopicPartition) -> list[tuple[bytes | None, bytes | None]]:
        """The same as (key, value)."""
        return [(row.key, row.value) for row in self.read(partition)]

    def changelog(self, store: StoreBuilder[Any], partition: int = 0) -> list[tuple[Any, Any]]:
        """The records of a changelog, decoded."""
        return [
            (store.key.decode(key or b""), None if value is None else store.value.decode(value))
            for key, value in self.records(self.changelog_of(store, partition))
        ]

    def fold(self, store: StoreBuilder[Any], partition: int = 0) -> dict[Any, Any]:
        """The rows by the changelog, decoded."""
        rows = fold(self.log, self.changelog_of(store, partition))
        return {store.key.decode(key): store.value.decode(value) for key, (value, _) in rows.items()}

    def position(self, partition: int = 0) -> Position:
        return read_positions(self.log, APP)[TaskId("totals", 1, 0, partition)]

    # --- offsets need not be dense: what lies below one is counted in records -------------------------

    def offsets(self, store: StoreBuilder[Any], partition: int = 0) -> list[int]:
        return [row.offset for row in self.read(self.changelog_of(store, partition))]

    def count(self, store: StoreBuilder[Any], below: int, partition: int = 0) -> int:
        """How many records a changelog has below an offset, which is the one right behind a record."""
        offsets = self.offsets(store, partition)
        assert below in {0, *(offset + 1 for offset in offsets)}, f"{below} is not behind any of {offsets}"
        return sum(offset < below for offset in offsets)

    def stands(self, store: StoreBuilder[Any], partition: int = 0) -> int:
        """How many records of a changelog the position speaks of."""
        return self.count(store, self.position(partition).changelogs[store.name], partition)

    def span(self, task: Task, store: StoreBuilder[Any]) -> tuple[int, int]:
        """From which record to which a store was restored: up to its position."""
        start, end = task.listener.span(store.name)
        assert end == task.at.changelogs[store.name]
        return self.count(store, start, task.id.partition), self.count(store, end, task.id.partition)

    def restore_events(self, task: Task, store: StoreBuilder[Any]) -> list[tuple[Any, ...]]:
        """The events that the listener got for a store, with offsets as counts of records."""
        found: list[tuple[Any, ...]] = []
        for event, name, partition, *numbers in task.listener.events:
            if name == store.name:
                places = {"start": 2, "batch": 1}.get(event, 0)
                counts = [self.count(store, offset, partition) for offset in numbers[:places]]
                found.append((event, *counts, *numbers[places:]))
        return found

    # --- what a log does by itself, in time -----------------------------------------------------------

    def cut(self, store: StoreBuilder[Any], before: int) -> None:
        """The history below an offset is gone."""
        self.log.purge(self.changelog_of(store), Offset(before))

    def compact(self, store: StoreBuilder[Any]) -> None:
        """Only the last word on each key is left."""
        self.log.compact(self.changelog_of(store).topic)

    def forget(self, store: StoreBuilder[Any], millis: int) -> None:
        """After so long no tombstone is left either."""
        self.compact(store)
        self.clock.advance(millis)
        self.compact(store)

    def tidy(self, store: StoreBuilder[Any]) -> None:
        """At any time, and whatever is there."""
        self.log.upkeep()
        self.compact(store)

    def close(self) -> None:
        for slot in self._slots:
            slot.drop()
            slot.writer.close()
        self.log.close()
