"""The state of one stream task: its stores, their changelog partitions and offsets, in one object.

    registered ── Restore.open ──> restoring ── Restore.step ... done ──> running
                                       │                                    │
                                       └──────────── close, drop ───────────┴──> closed

`close` persists what is committed in the log; `drop` (after any abort, fence or failure) discards everything
that is not committed to disk. A closed manager cannot be opened again: create a new one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from tidegate.clock import Clock
from tidegate.errors import ConfigError, StateError
from tidegate.log.checks import RECORD_OVERHEAD
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Log
from tidegate.log.reads import nothing_between
from tidegate.state.builder import BuiltStore, StoreBuilder
from tidegate.state.changelog import to_records
from tidegate.state.checkpoint import CHECKPOINT, Checkpoint, CheckpointFile
from tidegate.state.crash_count import CALM_SECONDS, clear_starts
from tidegate.state.environment import Environment, Metadata, StoreFacts
from tidegate.state.folders import TaskFolder
from tidegate.state.memtable import Memtable, MemtableBudget
from tidegate.state.protocol import Token
from tidegate.state.store_time import StoreTime
from tidegate.state.users_store import GuardedStore
from tidegate.types import Offset, TopicPartition

S = TypeVar("S")


class StateStatus(Enum):
    REGISTERED = "registered"
    RESTORING = "restoring"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the state. `epoch` and `attempt` are those of the slot that runs the task."""

    app: str
    task: TaskId
    log: str
    epoch: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """When the store is committed to disk, and how large it may get."""

    commit_seconds: float = 5.0
    commit_bytes: int = 64 << 20
    idle_seconds: float = 3600.0
    expire_per_commit: int = 1000
    max_map_bytes: int = 1 << 40
    memtable_bytes: int = 128 << 20
    """About how much memory the rows above LMDB may take in a slot."""
    budget: MemtableBudget | None = None
    """What the tasks of a slot share of it; without, a task has its own."""
    replay_buffer_bytes: int = 4 << 20
    """About how many bytes of a changelog, folded to the newest value per key, a restore applies at once."""
    sync: bool = True

    @classmethod
    def of_replay(cls) -> Limits:
        """Return the limits of a replay: its rows on disk save a restore only if it is killed in a step."""
        return cls(commit_seconds=30.0)

    def shared(self) -> Limits:
        """Return the limits for the tasks of one slot: they share the memory."""
        return replace(self, budget=MemtableBudget(self.memtable_bytes))


class StateManager:
    """The stores of one stream task on one host, from one opening to its close."""

    def __init__(self, owner: Owner, home: Path, clock: Clock, limits: Limits | None = None) -> None:
        self.owner = owner
        self.home = home
        self.clock = clock
        self.limits = limits or Limits()
        self.store_time = StoreTime()
        self.status = StateStatus.REGISTERED
        self.offsets: dict[str, int] = {}
        self.topics: dict[str, str] = {}
        self.current_at: dict[str, int] = {}
        self.position: Position | None = None
        self.gaps = 0
        self._builders: dict[str, StoreBuilder[Any]] = {}
        self._partitions: dict[str, TopicPartition] = {}
        self._built: dict[str, BuiltStore] = {}
        self._memtables: list[Memtable] = []
        self._folder: TaskFolder | None = None
        self._environment: Environment | None = None
        # Tasks of a slot write to disk at different times, so that none waits for all of them.
        self._persisted = time.monotonic() - self.limits.commit_seconds * (owner.task.partition % 8) / 8
        self._calm_at: float | None = None

    # --- registration ---------------------------------------------------------------------------------

    def register(self, builder: StoreBuilder[Any], changelog: str | None) -> None:
        """Add a store of this task, and its changelog topic; the changelog partition is the task's."""
        if builder.name in self._builders:
            raise ConfigError("duplicate-store", f"two stores are named {builder.name!r}", "rename one")
        if (changelog is not None) != builder.changelog:
            raise ConfigError(
                "bad-store",
                f"store {builder.name!r} has a changelog topic, but is declared without one, or vice versa",
                "this is a bug: report it",
            )
        self._builders[builder.name] = builder
        if changelog is not None:
            self._partitions[builder.name] = TopicPartition(changelog, self.owner.task.partition)

    def builders(self) -> list[StoreBuilder[Any]]:
        return list(self._builders.values())

    def changelogs(self) -> dict[str, TopicPartition]:
        """Return the changelog partition of each store that has one."""
        return dict(self._partitions)

    # --- used by Restore ------------------------------------------------------------------------------

    def attach(self, folder: TaskFolder, environment: Environment) -> None:
        """Set the folder and environment to work in, and build the stores on them."""
        self._folder, self._environment = folder, environment
        self._calm_at = time.monotonic() + CALM_SECONDS
        budget = self.limits.budget or MemtableBudget(self.limits.memtable_bytes)
        self._built = {
            name: builder.build(environment, self.store_time, budget)
            for name, builder in self._builders.items()
        }
        inner = [built.inner for built in self._built.values()]
        self._memtables = [store for store in inner if isinstance(store, Memtable)]
        self.status = StateStatus.RESTORING

    def limit_rows(self, store: str, largest_record: int) -> None:
        """Limit rows to what the store's changelog accepts: a larger one would fail every commit from then
        on."""
        self._built[store].cached.largest = largest_record - RECORD_OVERHEAD

    def inner(self, store: str) -> Any:
        return self._built[store].inner

    def running(self, position: Position) -> None:
        """Mark the stores as restored up to this position."""
        self.position = position
        self.status = StateStatus.RUNNING

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise StateError("not-open", "the task's state is not open", "restore it first")
        return self._folder.path

    @property
    def environment(self) -> Environment:
        if self._environment is None:
            raise StateError("not-open", "the task's state is not open", "restore it first")
        return self._environment

    # --- while running --------------------------------------------------------------------------------

    def store(self, builder: StoreBuilder[S]) -> S:
        """Return the typed store of a builder."""
        if self.status is not StateStatus.RUNNING:
            raise StateError("not-open", f"store {builder.name!r} is {self.status.value}", "restore it first")
        if self._builders.get(builder.name) != builder:
            raise ConfigError(
                "no-such-store",
                f"store {builder.name!r} is not declared for this task",
                "declare it with the step that uses it",
            )
        typed: S = self._built[builder.name].typed
        return typed

    def log_change(self, store: str, key: bytes, value: bytes | None) -> None:
        """Change a row of a store by its bytes; called by users' own stores."""
        self._built[store].cached.put(key, value, self.store_time.timestamp)

    def begin_record(self) -> None:
        for built in self._built.values():
            built.cached.begin_record()

    def end_record(self) -> None:
        for built in self._built.values():
            built.cached.end_record()

    def roll_back(self) -> None:
        """Undo the changes of the current record, which failed, in all stores."""
        for built in self._built.values():
            built.cached.roll_back()

    def pending_bytes(self) -> int:
        return sum(built.cached.bytes for built in self._built.values())

    # --- commit, steps 3, 6 and 7 ---------------------------------------------------------------------

    def expire(self) -> None:
        """Tombstone some rows of expired windows and sessions."""
        for built in self._built.values():
            built.expire(self.store_time.stream_time, self.limits.expire_per_commit)

    def changed(self) -> bool:
        """Whether any store was written since the last commit."""
        return any(built.cached.changes() for built in self._built.values())

    def change_records(self) -> dict[TopicPartition, pa.RecordBatch]:
        """Step 3: return the changelog records of this commit interval."""
        return {
            self._partitions[name]: to_records(built.cached.changes(), built.builder.layout)
            for name, built in self._built.items()
            if name in self._partitions and built.cached.changes()
        }

    def next_offsets(self, flushed: Mapping[TopicPartition, Offset]) -> dict[str, int]:
        """Return the changelog offsets for the position: as flushed, else unchanged."""
        return {
            name: int(flushed.get(partition, Offset(self.offsets[name])))
            for name, partition in self._partitions.items()
        }

    def apply(self, position: Position, committed_at: int) -> None:
        """Step 6: apply the changes, now committed in the log, to the stores; those of LMDB take them into
        their memtables. The map has room for all rows that wait there, whenever they are written."""
        pending = self.pending_bytes()
        if self.environment.needs_room(pending + self._waiting_bytes()):
            self.persist_now()
            self.environment.grow(pending)
        self.environment.end_scans()
        for name, built in self._built.items():
            changes = built.cached.changes()
            if changes:
                rows = {key: change[0] for key, change in changes.items()}
                if isinstance(built.inner, Memtable):
                    built.inner.take_over(rows)
                else:
                    built.inner.apply(rows.items(), self.token(name, position))
                built.cached.forget()
            if name in self._partitions:
                self.offsets[name] = position.changelogs[name]
                self.current_at[name] = committed_at
        self.position = position

    def token(self, store: str, position: Position) -> Token:
        """Return a token that orders writes by age. Without a changelog it uses the sum of the source
        offsets, which only rises."""
        offset = position.changelogs.get(store)
        if offset is None:
            offset = sum(sum(partitions.values()) for partitions in position.sources.values())
        return Token(self.owner.epoch, self.owner.attempt, offset)

    def persist(self, log: Log) -> bool:
        """Step 7: commit the rows to disk if that is due. Return whether it was."""
        waited = time.monotonic() - self._persisted
        applied = self.unsaved_bytes()
        due = self.limits.commit_seconds if applied else self.limits.idle_seconds
        if applied < self.limits.commit_bytes and waited < due:
            return False
        if not applied:
            self._note_current(log)
        self.persist_now()
        return True

    def _note_current(self, log: Log) -> None:
        """Update `current_at` of a store without changes, so that it does not count as idle. The log is
        consulted, because a zombie's own view would be outdated."""
        now = self.clock.now()
        ends = log.ends(self._partitions.values(), committed=False)
        for name, partition in self._partitions.items():
            if nothing_between(log, partition, self.offsets[name], ends[partition]):
                self.current_at[name] = now

    def unsaved_bytes(self) -> int:
        """About how many applied bytes might not survive a crash."""
        unflushed = sum(store.unflushed for store in self._users_stores().values())
        return self.environment.applied_bytes + self._waiting_bytes() + unflushed

    def _waiting_bytes(self) -> int:
        return sum(memtable.waiting_bytes for memtable in self._memtables)

    def make_room(self, size: int) -> None:
        """Commit the replayed rows and enlarge the map if `size` more bytes might not fit."""
        if self.environment.needs_room(size):
            self.persist_now()
            self.environment.grow(size)

    def persist_now(self) -> None:
        """Commit rows and offsets to disk: users' stores first, then their offsets, so that a checkpoint
        never covers rows that are not stored."""
        users_stores = self._users_stores()
        for store in users_stores.values():
            store.flush()
        if users_stores:
            self.checkpoint_file().write({name: self._checkpoint(name) for name in users_stores})
        for memtable in self._memtables:
            memtable.write()
        self.environment.commit(
            Metadata(
                app=self.owner.app,
                task=self.owner.task,
                log=self.owner.log,
                topics=self.topics,
                offsets=self.offsets,
                current_at=self.current_at,
                position=self.position,
                stores={name: self._facts(builder) for name, builder in self._builders.items()},
            )
        )
        self._persisted = time.monotonic()
        if self._calm_at is not None and self._persisted > self._calm_at:
            self._calm_at = None
            clear_starts(self.folder)

    def _facts(self, builder: StoreBuilder[Any]) -> StoreFacts:
        partition = self._partitions.get(builder.name)
        key = builder.key.name if builder.clock is None else f"timers[{builder.key.name}]"
        topic = partition.topic if partition else None
        return StoreFacts(
            builder.rows_kind, topic, key, builder.value.name, builder.window_size, builder.in_memory
        )

    def clear(self, store: str) -> None:
        """Delete all rows. For a user's store the checkpoint is reset first: it deletes rows at once, and a
        checkpoint that survived them would be believed at the next opening."""
        if store in self._users_stores():
            known = self.checkpoint_file().read()
            if known.get(store, Checkpoint(None)) != Checkpoint(None):
                self.checkpoint_file().write({**known, store: Checkpoint(None)})
        self._built[store].inner.clear()

    def _users_stores(self) -> dict[str, GuardedStore]:
        return {
            name: built.inner for name, built in self._built.items() if isinstance(built.inner, GuardedStore)
        }

    def checkpoint_file(self) -> CheckpointFile:
        return CheckpointFile(self.folder / CHECKPOINT)

    def _checkpoint(self, name: str) -> Checkpoint:
        return Checkpoint(
            self.offsets.get(name),
            self.position,
            self.topics.get(name, ""),
            self.current_at.get(name, 0),
        )

    # --- the end --------------------------------------------------------------------------------------

    def close(self, *, used_again: bool = True) -> None:
        """Commit to disk what the log has, and release everything. Uncommitted changes are dropped. Rows that
        nobody will use again here are not written if the log has all of them: it restores them if need be."""
        if self.status is StateStatus.CLOSED:
            return
        in_log = self._built.keys() <= self._partitions.keys() and not self._users_stores()
        try:
            if self.status is not StateStatus.REGISTERED and (used_again or not in_log):
                self.persist_now()
        finally:
            self.drop()

    def drop(self) -> None:
        """Release everything at once; only what is on disk survives. Never raises because of earlier
        failures."""
        self.status = StateStatus.CLOSED
        for built in self._built.values():
            built.cached.forget()
            if isinstance(built.inner, GuardedStore):
                with suppress(StateError):
                    built.inner.close()
        for memtable in self._memtables:
            memtable.leave()
        self._built, self._memtables = {}, []
        if self._environment is not None:
            self._environment.close()
            self._environment = None
        if self._folder is not None:
            clear_starts(self._folder.path)
            self._folder.release()
            self._folder = None
