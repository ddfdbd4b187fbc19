"""Bugs that somebody could write, each as a function that swaps one piece of the product for a wrong one.

The simulator must notice every one of them: a test that cannot fail proves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.simulator import model_writer

from tidegate.clock import Clock
from tidegate.log import names, positions, reads
from tidegate.log.positions import Position, position_row
from tidegate.log.protocol import Fetched, Writer
from tidegate.log.records import to_batch
from tidegate.log.sqlite import writer as sqlite_writer
from tidegate.runtime.driver import takeover
from tidegate.runtime.output.origin import without_times
from tidegate.runtime.output.outputs import TaskOutputs
from tidegate.runtime.slot import commit as commit_module
from tidegate.runtime.slot.commit import Committable
from tidegate.runtime.task.task import StreamTask
from tidegate.state import changelog, folders, restore
from tidegate.state.builder import BuiltStore
from tidegate.state.cached import CachedStore
from tidegate.state.environment import Environment
from tidegate.state.lru import LruStore
from tidegate.state.manager import StateManager
from tidegate.state.memory import MemoryStore
from tidegate.state.memtable import Memtable
from tidegate.state.restore import Restore
from tidegate.state.reuse import InLog, OnDisk, reason_to_discard
from tidegate.types import Offset, TopicPartition

Patch = pytest.MonkeyPatch
Seeding = Callable[[Patch], None]

_commit_log = commit_module._commit_log
_buffer = Restore._buffer


class Wrapped:
    """Something else in all but what a subclass changes."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


# --- commit -------------------------------------------------------------------------------------------


def _commit_in_another_order(*, persist: bool) -> Callable[..., list[Fetched]]:
    def wrong(
        app: str, writer: Writer, moved: Sequence[Committable], clock: Clock, read: Any
    ) -> list[Fetched]:
        early: list[tuple[Committable, Position]] = []

        class Late(Wrapped):
            """A writer whose commit comes after the stores took the changes."""

            def commit(self) -> dict[TopicPartition, Offset]:
                for task, position in early:
                    task.state.apply(position, clock.now())
                    if persist:
                        task.state.persist_now()
                return writer.commit()

        class Seen(Wrapped):
            """A task that remembers the position it was asked for."""

            def position(self, changelogs: dict[str, int]) -> Position:
                position: Position = self.inner.position(changelogs)
                early.append((self.inner, position))
                return position

        late: Any = Late(writer)
        seen: Any = [Seen(task) for task in moved]
        return _commit_log(app, late, seen, clock, read)

    return wrong


def store_committed_before_the_log(patch: Patch) -> None:
    patch.setattr(commit_module, "_commit_log", _commit_in_another_order(persist=True))


def changes_applied_before_the_log_commit(patch: Patch) -> None:
    patch.setattr(commit_module, "_commit_log", _commit_in_another_order(persist=False))


def position_in_a_transaction_of_its_own(patch: Patch) -> None:
    def wrong(app: str, writer: Writer, moved: Sequence[Committable], clock: Clock, _: Any) -> list[Fetched]:
        for task in moved:
            for partition, batch in [*task.outputs(), *task.state.change_records().items()]:
                writer.append(partition, without_times(batch))
        changelogs = [partition for task in moved for partition in task.state.changelogs().values()]
        flushed = writer.flush(changelogs)
        places = [task.position(task.state.next_offsets(flushed)) for task in moved]
        writer.commit()
        rows = [position_row(task.id, place, clock.now()) for task, place in zip(moved, places, strict=True)]
        writer.append(TopicPartition(names.positions(app), 0), to_batch(rows))
        writer.commit()
        for task, place in zip(moved, places, strict=True):
            task.state.apply(place, clock.now())
            task.committed(place)
        return []

    patch.setattr(commit_module, "_commit_log", wrong)


def outputs_sent_twice(patch: Patch) -> None:
    right = StreamTask.committed

    def wrong(self: StreamTask, position: Position) -> None:
        kept, self._sender.outputs = self._sender.outputs, TaskOutputs(self.partition)
        right(self, position)
        self._sender.outputs = kept

    patch.setattr(StreamTask, "committed", wrong)


def _offsets_moved_by(step: int) -> Seeding:
    right = StateManager.next_offsets

    def wrong(self: StateManager, flushed: Mapping[TopicPartition, Any]) -> dict[str, int]:
        return {name: max(0, offset + step) for name, offset in right(self, flushed).items()}

    return lambda patch: patch.setattr(StateManager, "next_offsets", wrong)


# --- restore ------------------------------------------------------------------------------------------


def _target_moved_by(step: int) -> Seeding:
    def wrong(self: Restore, fetched: Fetched) -> None:
        target = self._targets.get(fetched.partition)
        if target is not None:
            self._targets[fetched.partition] = max(0, target + step)
        _buffer(self, fetched)
        if target is not None:
            self._targets[fetched.partition] = target
            self._buffers[fetched.partition].next = min(int(fetched.next), target)

    return lambda patch: patch.setattr(Restore, "_buffer", wrong)


def progress_off_by_one(patch: Patch) -> None:
    right = Restore._save_progress

    def wrong(self: Restore) -> None:
        offsets = dict(self._manager.offsets)
        for store, partition in self._manager.changelogs().items():
            if partition in self._targets:
                self._manager.offsets[store] += 1
        right(self)
        self._manager.offsets.update(offsets)

    patch.setattr(Restore, "_save_progress", wrong)


def tombstone_age_ignored(patch: Patch) -> None:
    """Both at the opening and in each turn: either alone would do for a restore of one turn."""

    def wrong(found: OnDisk, log: InLog, now: int) -> str | None:
        return reason_to_discard(replace(found, current_at=now), log, now)

    patch.setattr(restore, "reason_to_discard", wrong)
    age_check_during_a_restore_off(patch)


def ahead_check_off(patch: Patch) -> None:
    """As if the store were current: what it has too much stays."""

    def wrong(found: OnDisk, log: InLog, now: int) -> str | None:
        return reason_to_discard(replace(found, offset=min(found.offset, log.target)), log, now)

    patch.setattr(restore, "reason_to_discard", wrong)


def age_check_during_a_restore_off(patch: Patch) -> None:
    patch.setattr(Restore, "_check_age", lambda _: None)


def deletes_first_then_puts(patch: Patch) -> None:
    right = changelog.to_rows

    def wrong(batch: Any, layout: Any) -> list[tuple[bytes, bytes | None]]:
        return sorted(right(batch, layout), key=lambda row: row[1] is not None)

    patch.setattr(restore, "to_rows", wrong)


def positions_read_to_the_committed_end_only(patch: Patch) -> None:
    right = reads.read_to_end

    class Committed(Wrapped):
        def ends(self, partitions: Any, **_: bool) -> Any:
            return self.inner.ends(partitions, committed=True)

    def wrong(log: Any, at: Any) -> Any:
        hidden: Any = Committed(log)
        return right(hidden, at)

    patch.setattr(positions, "read_to_end", wrong)


# --- the end of a task --------------------------------------------------------------------------------


def cache_that_survives_a_drop(patch: Patch) -> None:
    kept: dict[tuple[Path, str], dict[bytes, Any]] = {}
    drop, attach = StateManager.drop, StateManager.attach

    def wrong_drop(self: StateManager) -> None:
        kept.update({(self.home, name): dict(built.cached.changes()) for name, built in self._built.items()})
        drop(self)

    def wrong_attach(self: StateManager, folder: Any, environment: Environment) -> None:
        attach(self, folder, environment)
        for name, built in self._built.items():
            for key, change in kept.pop((self.home, name), {}).items():
                built.cached.put(key, change[0], change[1])

    patch.setattr(StateManager, "drop", wrong_drop)
    patch.setattr(StateManager, "attach", wrong_attach)


def folder_lock_ignored(patch: Patch) -> None:
    flags = os.O_RDWR | os.O_CREAT
    patch.setattr(folders, "_try_lock", lambda path: os.open(folders._lock_file(path), flags))


def failed_records_stay(patch: Patch) -> None:
    patch.setattr(CachedStore, "roll_back", CachedStore.end_record)
    patch.setattr(LruStore, "roll_back", CachedStore.end_record)


def commit_on_disk_at_a_drop(patch: Patch) -> None:
    """Whoever fails saves what it has, changes and all."""
    right = StateManager.drop

    def wrong(self: StateManager) -> None:
        for name, built in self._built.items():
            if self.position is not None and isinstance(built.inner, Memtable):
                rows = [(key, change[0]) for key, change in built.cached.changes().items()]
                built.inner.apply(rows, self.token(name, self.position))
        if self._environment is not None:
            StateManager.persist_now(self)
        right(self)

    patch.setattr(StateManager, "drop", wrong)


# --- stores and logs ----------------------------------------------------------------------------------


def no_fence_of_older_epochs(patch: Patch) -> None:
    patch.setattr(takeover, "fence", lambda *_: None)


def no_fence_in_the_log(patch: Patch) -> None:
    patch.setattr(sqlite_writer, "check_epoch", lambda *_: None)
    patch.setattr(model_writer.ModelWriter, "_check", lambda _: None)
    patch.setattr(model_writer.ModelWriter, "fence", lambda _: None)


def evictions_not_logged(patch: Patch) -> None:
    def wrong(self: LruStore, key: bytes, value: bytes | None, timestamp: int) -> None:
        CachedStore.put(self, key, value, timestamp)
        rows = self._memory.by_last_write()
        if value is not None and len(rows) >= self._capacity:
            self._memory.apply([(rows[0], None)])

    patch.setattr(LruStore, "put", wrong)


def failed_records_count_as_use(patch: Patch) -> None:
    def wrong(self: LruStore) -> None:
        CachedStore.roll_back(self)
        self._used = None

    patch.setattr(LruStore, "roll_back", wrong)


def evictions_by_the_first_write(patch: Patch) -> None:
    failed_records_count_as_use(patch)
    patch.setattr(LruStore, "_write", CachedStore.put)


def windows_expire_without_a_tombstone(patch: Patch) -> None:
    def wrong(self: BuiltStore, stream_time: int, limit: int) -> int:
        if self.builder.retention is None or not isinstance(self.inner, Memtable):
            return 0
        gone = self.inner.ended(stream_time - self.builder.retention + 1, limit)
        self.inner.apply([(key, None) for key in gone])
        return len(gone)

    patch.setattr(BuiltStore, "expire", wrong)


def deletes_not_logged(patch: Patch) -> None:
    from tidegate.state import manager

    right = changelog.to_records

    def wrong(changes: Mapping[bytes, Any], layout: Any) -> Any:
        return right({key: change for key, change in changes.items() if change[0] is not None}, layout)

    patch.setattr(manager, "to_records", wrong)


def memory_restored_by_halves(patch: Patch) -> None:
    right = MemoryStore.apply

    def wrong(self: MemoryStore, rows: Any, token: Any = None) -> None:
        right(self, [row for row in rows if row[1] is not None or row[0] not in self._rows], token)

    patch.setattr(MemoryStore, "apply", wrong)


SEEDED: dict[str, Seeding] = {
    "store committed before the log": store_committed_before_the_log,
    "changes applied before the log's commit": changes_applied_before_the_log_commit,
    "position in a transaction of its own": position_in_a_transaction_of_its_own,
    "outputs sent twice": outputs_sent_twice,
    "offsets in the position one too high": _offsets_moved_by(1),
    "offsets in the position one too low": _offsets_moved_by(-1),
    "restore reads one past its target": _target_moved_by(1),
    "restore stops one short of its target": _target_moved_by(-1),
    "progress of a restore off by one": progress_off_by_one,
    "tombstone age ignored": tombstone_age_ignored,
    "tombstone age ignored while restoring": age_check_during_a_restore_off,
    "ahead of the log ignored": ahead_check_off,
    "deletes first, then puts": deletes_first_then_puts,
    "positions read to the committed end only": positions_read_to_the_committed_end_only,
    "cache survives a drop": cache_that_survives_a_drop,
    "a drop saves what it has": commit_on_disk_at_a_drop,
    "folder lock ignored": folder_lock_ignored,
    "failed records stay": failed_records_stay,
    "older epochs are not fenced": no_fence_of_older_epochs,
    "the log fences nobody": no_fence_in_the_log,
    "evictions not logged": evictions_not_logged,
    "failed records count as use": failed_records_count_as_use,
    "evictions by the first write": evictions_by_the_first_write,
    "windows expire without a tombstone": windows_expire_without_a_tombstone,
    "deletes not logged": deletes_not_logged,
    "deletes in memory lost": memory_restored_by_halves,
}
