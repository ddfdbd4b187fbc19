"""The state of one stream task: the single place that knows its stores, partitions and offsets.

    registered ── Restore.open ──> restoring ── Restore.turn ... done ──> running
                                       │                                    │
                                       └──────────── close, drop ───────────┴──> closed

`close` keeps what is committed in the log; `drop` (after any abort, fence or failure) forgets everything
that is not committed to disk. A closed manager is not opened again: make a new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
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
from tidegate.state.crash_count import CALM_SECONDS, forget_starts
from tidegate.state.environment import Environment, Metadata, StoreFacts
from tidegate.state.folders import TaskFolder
from tidegate.state.protocol import RawRow, Token
from tidegate.state.store_time import StoreTime
from tidegate.state.users_store import GuardedStore
from tidegate.types import Offset, TopicPartition

S = TypeVar("S")


class Status(Enum):
    REGISTERED = "registered"
    RESTORING = "restoring"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose state it is. `epoch` and `attempt` are those of the slot that runs the task."""

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
    gathered_bytes: int = 4 << 20
    """How much of a changelog a restore applies at once, about: of each key the last word."""
    sync: bool = True


class StateManager:
    """Stores of one stream task, on one host, for one life."""

    def __init__(self, owner: Owner, home: Path, clock: Clock, limits: Limits | None = None) -> None:
        self.owner = owner
        self.home = home
        self.clock = clock
        self.limits = limits or Limits()
        self.moment = StoreTime()
        self.status = Status.REGISTERED
        self.offsets: dict[str, int] = {}
        self.topics: dict[str, str] = {}
        self.current_at: dict[str, int] = {}
        self.position: Position | None = None
        self.gaps = 0
        self._builders: dict[str, StoreBuilder[Any]] = {}
        self._partitions: dict[str, TopicPartition] = {}
        self._built: dict[str, BuiltStore] = {}
        self._folder: TaskFolder | None = None
        self._environment: Environment | None = None
        self._persisted = time.monotonic()
        self._calm_at: float | None = None

    # --- registration ---------------------------------------------------------------------------------

    def register(self, builder: StoreBuilder[Any], changelog: str | None) -> None:
        """A store of this task, and the topic of its changelog; its partition is the task's."""
        if builder.name in self._builders:
            raise ConfigError("duplicate-store", f"there are two stores {builder.name!r}", "rename one")
        if (changelog is not None) != builder.changelog:
            raise ConfigError(
                "bad-store", f"store {builder.name!r}: changelog on or off?", "this is a bug: report it"
            )
        self._builders[builder.name] = builder
        if changelog is not None:
            self._partitions[builder.name] = TopicPartition(changelog, self.owner.task.partition)

    def builders(self) -> list[StoreBuilder[Any]]:
        return list(self._builders.values())

    def changelogs(self) -> dict[str, TopicPartition]:
        """The changelog partition of each store that has one."""
        return dict(self._partitions)

    # --- used by Restore ------------------------------------------------------------------------------

    def attach(self, folder: TaskFolder, environment: Environment) -> None:
        """The folder and environment to work in; the stores are built on them."""
        self._folder, self._environment = folder, environment
        self._calm_at = time.monotonic() + CALM_SECONDS
        self._built = {
            name: builder.build(environment, self.moment) for name, builder in self._builders.items()
        }
        self.status = Status.RESTORING

    def limit_rows(self, store: str, largest_record: int) -> None:
        """No row may be larger than its changelog takes: it would fail every commit from then on."""
        self._built[store].cached.largest = largest_record - RECORD_OVERHEAD

    def inner(self, store: str) -> Any:
        return self._built[store].inner

    def running(self, position: Position) -> None:
        """Everything is restored up to this position."""
        self.position = position
        self.status = Status.RUNNING

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
        """The typed store of a builder."""
        if self.status is not Status.RUNNING:
            raise StateError("not-open", f"store {builder.name!r} is {self.status.value}", "restore it first")
        if self._builders.get(builder.name) != builder:
            raise ConfigError(
                "no-such-store", f"store {builder.name!r} is not one of the task's", "declare it"
            )
        typed: S = self._built[builder.name].typed
        return typed

    def log_change(self, store: str, key: bytes, value: bytes | None) -> None:
        """Change a row of a store by its bytes: what users' own stores call."""
        self._built[store].cached.put(key, value, self.moment.timestamp)

    def begin_record(self) -> None:
        for built in self._built.values():
            built.cached.begin_record()

    def end_record(self) -> None:
        for built in self._built.values():
            built.cached.end_record()

    def take_back(self) -> None:
        """The record in work failed: nothing of it stays in any store."""
        for built in self._built.values():
            built.cached.take_back()

    def pending_bytes(self) -> int:
        return sum(built.cached.bytes for built in self._built.values())

    # --- commit, steps 3, 6 and 7 ---------------------------------------------------------------------

    def expire(self) -> None:
        """Tombstone some rows of windows and sessions that are gone."""
        for built in self._built.values():
            built.expire(self.moment.stream_time, self.limits.expire_per_commit)

    def changed(self) -> bool:
        """Whether any store was written since the last commit."""
        return any(built.cached.changes() for built in self._built.values())

    def change_records(self) -> dict[TopicPartition, pa.RecordBatch]:
        """Step 3: the changelog records of this commit interval."""
        return {
            self._partitions[name]: to_records(built.cached.changes(), built.builder.layout)
            for name, built in self._built.items()
            if name in self._partitions and built.cached.changes()
        }

    def next_offsets(self, flushed: Mapping[TopicPartition, Offset]) -> dict[str, int]:
        """The changelog offsets for the position: as flushed, else as they were."""
        return {
            name: int(flushed.get(partition, Offset(self.offsets[name])))
            for name, partition in self._partitions.items()
        }

    def apply(self, position: Position, committed_at: int) -> None:
        """Step 6: the changes, now committed in the log, become rows."""
        if self.environment.needs_room(self.pending_bytes()):
            self.persist_now()
            self.environment.grow(self.pending_bytes())
        for name, built in self._built.items():
            changes = built.cached.changes()
            if changes:
                rows: Iterable[RawRow] = ((key, change[0]) for key, change in changes.items())
                built.inner.apply(rows, self.token(name, position))
                built.cached.forget()
            if name in self._partitions:
                self.offsets[name] = position.changelogs[name]
                self.current_at[name] = committed_at
        self.position = position

    def token(self, store: str, position: Position) -> Token:
        """How new the changes are. Without a changelog the source offsets, which only rise, stand for it."""
        offset = position.changelogs.get(store)
        if offset is None:
            offset = sum(sum(partitions.values()) for partitions in position.sources.values())
        return Token(self.owner.epoch, self.owner.attempt, offset)

    def persist(self, log: Log) -> bool:
        """Step 7: commit the rows to disk if it is time. Whether it was."""
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
        """A quiet store must not look like one that slept. It asks the log: a zombie would not know."""
        now = self.clock.now()
        ends = log.ends(self._partitions.values(), committed=False)
        for name, partition in self._partitions.items():
            if nothing_between(log, partition, self.offsets[name], ends[partition]):
                self.current_at[name] = now

    def unsaved_bytes(self) -> int:
        """About how much was applied and is not sure to survive a crash."""
        return self.environment.applied_bytes + sum(store.unflushed for store in self._own_stores().values())

    def make_room(self, size: int) -> None:
        """Commit what is replayed and enlarge the map if `size` more bytes might not fit."""
        if self.environment.needs_room(size):
            self.persist_now()
            self.environment.grow(size)

    def persist_now(self) -> None:
        """Commit rows and offsets to disk. Users' stores first, then their offsets: a checkpoint never tells
        of rows that are not there."""
        own = self._own_stores()
        for store in own.values():
            store.flush()
        if own:
            self.checkpoint_file().write({name: self._checkpoint(name) for name in own})
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
            forget_starts(self.folder)

    def _facts(self, builder: StoreBuilder[Any]) -> StoreFacts:
        partition = self._partitions.get(builder.name)
        key = builder.key.name if builder.clock is None else f"timers[{builder.key.name}]"
        topic = partition.topic if partition else None
        return StoreFacts(
            builder.rows_kind, topic, key, builder.value.name, builder.window_size, builder.in_memory
        )

    def clear(self, store: str) -> None:
        """Drop all rows. Of a user's store first what is known of it: the rows are gone at once, and an
        offset that outlived them would be trusted one day."""
        if store in self._own_stores():
            known = self.checkpoint_file().read()
            if known.get(store, Checkpoint(None)) != Checkpoint(None):
                self.checkpoint_file().write({**known, store: Checkpoint(None)})
        self._built[store].inner.clear()

    def _own_stores(self) -> dict[str, GuardedStore]:
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

    def close(self) -> None:
        """Commit to disk what the log has, and let go. Changes that were not committed are forgotten."""
        if self.status is Status.CLOSED:
            return
        try:
            if self.status is not Status.REGISTERED:
                self.persist_now()
        finally:
            self.drop()

    def drop(self) -> None:
        """Let go at once: nothing that is not on disk survives. Never raises for what is broken already."""
        self.status = Status.CLOSED
        for built in self._built.values():
            built.cached.forget()
            if isinstance(built.inner, GuardedStore):
                with suppress(StateError):
                    built.inner.close()
        self._built = {}
        if self._environment is not None:
            self._environment.close()
            self._environment = None
        if self._folder is not None:
            forget_starts(self._folder.path)
            self._folder.release()
            self._folder = None
