"""Restore a task's stores to the position that is committed for it in the log."""

from __future__ import annotations

import time
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import StateError
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position
from tidegate.log.protocol import Fetched, Log, Reader
from tidegate.state.changelog import to_rows
from tidegate.state.environment import Metadata
from tidegate.state.folders import TaskFolder, claim, remove_older
from tidegate.state.manager import StateManager, StateStatus
from tidegate.state.memtable import Memtable
from tidegate.state.opening import attach, copy_from_holder
from tidegate.state.protocol import QuietListener, RestoreListener
from tidegate.state.replay_buffer import ReplayBuffer
from tidegate.state.reuse import InLog, OnDisk, reason_to_discard
from tidegate.state.task_context import TaskContext
from tidegate.state.users_store import GuardedStore
from tidegate.types import Offset, TopicPartition

PROGRESS_SECONDS = 5.0
REPLAY_BUFFER_RECORDS = 1_000_000


class Restore:
    """One restore of one task, in bounded steps.

    1 take a lock on the task's folder, without waiting; if another process holds it, work in the next folder,
    filled with a copy of what the holder committed, or from the log; 2 compare the folder's metadata with the
    position and the changelogs, and discard, with a notification, what cannot be used; 3 replay each
    changelog from the store's offset to the offset in the position, waiting if the committed end has not
    reached it; 4 keep the order of puts and deletes; 5 commit progress on the way, so that the next attempt
    continues from there; 6 notify the listener."""

    def __init__(
        self,
        manager: StateManager,
        log: Log,
        committed: Position,
        listener: RestoreListener | None = None,
        *,
        read_at: int | None = None,
    ) -> None:
        """`read_at` is a wall time from before `committed` was read; default now. The stores are current as
        of then, however late they are opened: tombstones written since are not known."""
        self._manager = manager
        self._read_at = manager.clock.now() if read_at is None else read_at
        self._log = log
        self._committed = committed
        self._listener = listener or QuietListener()
        self._reader: Reader | None = None
        self._targets: dict[TopicPartition, int] = {}
        self._limits: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self._started_over: set[str] = set()
        self._buffers: dict[TopicPartition, ReplayBuffer] = {}
        self._stores = {partition: store for store, partition in manager.changelogs().items()}
        self._started = 0
        self._progress = time.monotonic()

    @property
    def waiting_for(self) -> dict[TopicPartition, int]:
        """The offsets that the restore has not reached yet."""
        return dict(self._targets)

    def open(self) -> None:
        """Run steps 1 and 2."""
        manager = self._manager
        if manager.status is not StateStatus.REGISTERED:
            raise StateError(
                "opened-twice", "the task's state was opened before", "create a new StateManager"
            )
        self._started = manager.clock.now()
        folder: TaskFolder | None = None
        try:
            reach("restore.1")
            folder = claim(manager.home)
            copy_from_holder(folder)
            metadata, emptied = attach(manager, folder, self._listener)
            reach("restore.2")
            changelogs = self._changelogs()
            self._open_users_stores()
            starts = {
                name: self._replay_start(name, changelog, metadata) for name, changelog in changelogs.items()
            }
            for builder in manager.builders():
                if not builder.changelog:
                    self._check_gap(builder.name, metadata, emptied=emptied)
            remove_older(folder)
            self._start_reading(starts)
        except BaseException:
            manager.drop()
            if folder is not None:
                folder.release()
            raise

    def step(self) -> bool:
        """Run steps 3 to 6 for the records of about one poll. Return whether everything is restored."""
        if self._manager.status is StateStatus.RUNNING:
            return True
        try:
            if self._reader is not None and self._targets:
                self._check_age()
                reach("restore.3")
                fetched = self._reader.poll(0)
                for part in fetched:
                    self._buffer(part)
                self._replay_enough(flush=not fetched)
                self._drop_reached()
                self._save_progress()
            if self._targets:
                return False
            self._finish()
        except BaseException:
            self.suspend()
            raise
        return True

    def run(self, patience: float = 30.0) -> None:
        """Run all steps, for callers that have nothing else to do."""
        last, deadline = self.waiting_for, time.monotonic() + patience
        offsets: dict[str, int] = {}
        while not self.step():
            if dict(self._manager.offsets) != offsets or self.waiting_for != last:
                offsets, last = dict(self._manager.offsets), self.waiting_for
                deadline = time.monotonic() + patience
            if time.monotonic() > deadline:
                missing = ", ".join(f"{partition} to {offset}" for partition, offset in last.items())
                self.suspend()
                raise StateError(
                    "restore-waits",
                    f"the log cannot be read up to the committed position: {missing}",
                    "an open transaction may hide the rest until it ends; try again",
                    retryable=True,
                )
            time.sleep(0.001)

    def suspend(self) -> None:
        """Stop and release everything; the next restore continues from the committed progress."""
        for partition in self._targets:
            store = self._stores[partition]
            self._listener.on_suspended(store, partition.partition, self._totals.get(store, 0))
        self._close_reader()
        self._manager.drop()

    # --- step 2 ---------------------------------------------------------------------------------------

    def _changelogs(self) -> dict[str, InLog]:
        """Return the stores' changelogs. A target that an open transaction hides is awaited later; raise for
        one beyond the uncommitted end, which will never be reached."""
        manager = self._manager
        partitions = manager.changelogs()
        ends = self._log.ends(partitions.values(), committed=False) if partitions else {}
        found = {}
        for name, partition in partitions.items():
            target = self._committed.changelogs.get(name)
            if target is None:
                raise StateError(
                    "no-position",
                    f"the position of {manager.owner.task} has no offset for store {name!r}",
                    "the first start of an app writes all offsets; this is a bug: report it",
                )
            if ends[partition] < target:
                raise StateError(
                    "changelog-lost",
                    f"{partition} ends at {ends[partition]}, but the position names offset {target}",
                    "restore the topic from a copy: it was recreated, or its broker lost records",
                )
            info = self._log.describe(partition.topic)
            retention = info.setting("delete.retention.ms")
            manager.limit_rows(name, info.setting("max.message.bytes"))
            found[name] = InLog(info.uid, info.starts[partition.partition], target, retention)
        return found

    def _open_users_stores(self) -> None:
        """Open users' stores. A shared one gets the new owner's token, so that it refuses a zombie from here
        on."""
        manager = self._manager
        for builder in manager.builders():
            store = manager.inner(builder.name)
            if isinstance(store, GuardedStore):
                store.open(TaskContext(manager, builder.name))
                store.apply((), manager.token(builder.name, self._committed))

    def _replay_start(self, name: str, changelog: InLog, metadata: Metadata | None) -> int:
        """Return the offset from which a store's changelog is replayed; discard rows that cannot be used."""
        manager = self._manager
        partition = manager.changelogs()[name]
        found = self._found(name, metadata)
        reason = reason_to_discard(found, changelog, self._started) if found else None
        if reason is not None:
            self._listener.on_discard(name, partition.partition, reason)
        manager.topics[name] = changelog.topic
        self._limits[name] = changelog.delete_retention_ms
        self._targets[partition] = changelog.target
        if found is not None and reason is None:
            manager.current_at[name] = found.current_at
            manager.offsets[name] = found.offset
        else:
            manager.clear(name)
            manager.current_at[name] = self._started
            manager.offsets[name] = min(changelog.start, changelog.target)
        return manager.offsets[name]

    def _found(self, name: str, metadata: Metadata | None) -> OnDisk | None:
        """Return what the disk holds of a store; None for an unknown one, and always for one in memory."""
        builder = next(builder for builder in self._manager.builders() if builder.name == name)
        if builder.factory is not None:
            entry = self._manager.checkpoint_file().read().get(name)
            if entry is None or entry.offset is None:
                return None
            return OnDisk(entry.offset, entry.topic, entry.current_at)
        if builder.in_memory or metadata is None or name not in metadata.offsets:
            return None
        facts, topic = metadata.stores.get(name), metadata.topics.get(name, "")
        same_layout = facts is None or facts.kind == builder.rows_kind
        return OnDisk(metadata.offsets[name], topic, metadata.current_at.get(name, 0), same_layout)

    def _check_gap(self, name: str, metadata: Metadata | None, *, emptied: bool) -> None:
        """Empty or keep a store without changelog if its rows belong to another position than the committed
        one. A task that never ran has nothing to lose. Rows of an emptied folder cannot be kept."""
        manager = self._manager
        builder = next(builder for builder in manager.builders() if builder.name == name)
        if builder.factory is not None:
            entry = manager.checkpoint_file().read().get(name)
            recorded, lost = (entry.position if entry else None), False
        else:
            lost = emptied and not builder.in_memory
            recorded = metadata.position if metadata and not builder.in_memory else None
        if recorded == self._committed:
            return
        kept = builder.on_gap == "keep" and not lost
        if recorded is not None or lost or self._committed.progress:
            manager.gaps += kept
            self._listener.on_gap(name, manager.owner.task.partition, kept=kept)
        if not kept:
            manager.clear(name)

    # --- steps 3 to 6 ---------------------------------------------------------------------------------

    def _start_reading(self, starts: dict[str, int]) -> None:
        changelogs = self._manager.changelogs()
        for name, start in starts.items():
            target = self._targets[changelogs[name]]
            self._listener.on_start(name, changelogs[name].partition, start, target)
        behind = {changelogs[name]: Offset(start) for name, start in starts.items()}
        behind = {partition: start for partition, start in behind.items() if start < self._targets[partition]}
        if behind:
            self._reader = self._log.reader(behind)
        self._drop_reached()

    def _buffer(self, fetched: Fetched) -> None:
        """Buffer the records below the target."""
        target = self._targets.get(fetched.partition)
        if target is None:
            return
        batch = fetched.batch
        if fetched.next > target:
            batch = batch.filter(pc.less(batch.column(0), pa.scalar(target, pa.int64())))
        self._buffers.setdefault(fetched.partition, ReplayBuffer()).add(batch, min(int(fetched.next), target))

    def _replay_enough(self, *, flush: bool) -> None:
        """Apply a partition once it has reached its target, 4 MiB are folded, or 1M records were read; always
        for stores that take rows one by one; with `flush`, apply every partition."""
        limit = self._manager.limits.replay_buffer_bytes
        for partition, found in list(self._buffers.items()):
            ready = flush or found.next >= self._targets[partition] or not self._on_lmdb(partition)
            if not ready and found.unfolded >= limit:
                found.fold()
                ready = found.bytes >= limit or found.records >= REPLAY_BUFFER_RECORDS
            if ready:
                del self._buffers[partition]
                self._replay(partition, found)

    def _on_lmdb(self, partition: TopicPartition) -> bool:
        return isinstance(self._manager.inner(self._stores[partition]), Memtable)

    def _replay(self, partition: TopicPartition, found: ReplayBuffer) -> None:
        """Apply rows in their order; the newest row of each key wins. Rows of LMDB go there directly. All
        have the token of the position, so that a store which had them before a crash does not refuse them as
        a zombie's."""
        store, manager = self._stores[partition], self._manager
        manager.make_room(found.bytes)
        reach("restore.4")
        inner = manager.inner(store)
        target = inner.below if isinstance(inner, Memtable) else inner
        layout = next(builder.layout for builder in manager.builders() if builder.name == store)
        for batch in [found.newest_per_key()] if self._on_lmdb(partition) else found.batches:
            target.apply(to_rows(batch, layout), manager.token(store, self._committed))
        manager.offsets[store] = found.next
        self._totals[store] = self._totals.get(store, 0) + found.records
        self._listener.on_batch(store, partition.partition, found.next, found.records)

    def _drop_reached(self) -> None:
        """Finish partitions that have reached their target, by the reader's position and not by the last
        record: some offsets hold no record."""
        for partition, target in list(self._targets.items()):
            store = self._stores[partition]
            if self._manager.offsets[store] >= target:
                del self._targets[partition]
                self._listener.on_end(store, partition.partition, self._totals.get(store, 0))

    def _save_progress(self) -> None:
        manager = self._manager
        unsaved = manager.unsaved_bytes()
        late = time.monotonic() - self._progress > PROGRESS_SECONDS
        if unsaved >= manager.limits.commit_bytes or (unsaved and late):
            reach("restore.5")
            manager.persist_now()
            self._progress = time.monotonic()

    def _check_age(self) -> None:
        """Start over if the restore took so long that tombstones ahead of it may have been removed; fail the
        second time, since a third attempt would not be faster."""
        manager, now = self._manager, self._manager.clock.now()
        for partition, target in self._targets.items():
            store = self._stores[partition]
            limit = self._limits[store] // 2
            if now - manager.current_at[store] <= limit:
                continue
            if store in self._started_over:
                raise StateError(
                    "restore-too-slow",
                    f"store {store!r}: its restore from {partition} to offset {target} took longer than"
                    f" {limit:,} ms twice, half of the topic's delete.retention.ms; it reached offset"
                    f" {manager.offsets[store]}",
                    f"raise delete.retention.ms of the topic {partition.topic}, and in the store's"
                    " with_changelog; find out why the log is slow",
                )
            self._started_over.add(store)
            self._listener.on_discard(store, partition.partition, "its restore took too long")
            start = self._log.describe(partition.topic).starts[partition.partition]
            manager.clear(store)
            self._buffers.pop(partition, None)
            manager.current_at[store] = now
            manager.offsets[store] = min(start, target)
            if self._reader is not None:
                self._reader.seek(partition, Offset(manager.offsets[store]))

    def _finish(self) -> None:
        manager = self._manager
        reach("restore.6")
        self._close_reader()
        for name in manager.changelogs():
            manager.current_at[name] = self._read_at
        manager.running(self._committed)
        if manager.unsaved_bytes():
            manager.persist_now()

    def _close_reader(self) -> None:
        if self._reader is not None:
            with suppress(Exception):
                self._reader.close()
            self._reader = None
