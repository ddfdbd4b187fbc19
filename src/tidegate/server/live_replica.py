"""A replica of a topic that a thread keeps up to date.

1 describe the topic: if it was deleted and created again, start with an empty replica; 2 read from the
replica's positions; 3 apply what was read, rows and positions in one transaction; 4 wake waiting calls and
report the changed keys to the watcher. After an error the replica keeps what it has, unless the error means
that the topic is another one or the replica is corrupt. A snapshot has at least every record that was
committed before step 2 last started.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tidegate.errors import ConfigError, LogError, TidegateError
from tidegate.log.protocol import Fetched, Log
from tidegate.log.topic import TopicInfo
from tidegate.server.follower import Follower
from tidegate.state.protocol import RawRow
from tidegate.state.replica import Replica, ReplicaSnapshot
from tidegate.types import Offset, TopicPartition

POLL_SECONDS = 0.2
REBUILD_CODES = {"no-such-topic", "offset-out-of-range", "topic-recreated", "corrupt-state"}
"""Errors after which the replica is deleted and read again from the start of the topic."""

ToRows = Callable[[pa.RecordBatch], list[RawRow]]
"""Converts records to rows, whose keys end with the replica's suffix."""


class Watcher(Protocol):
    """Learns which rows changed. `changed` is called by the thread of the replica, once the rows can be read,
    and must not block."""

    @property
    def keys(self) -> Container[bytes]:
        """Only changes of these are reported; the thread of the replica looks into it at any time."""
        ...

    def changed(self, keys: list[bytes] | None) -> None:
        """These rows changed; None: any may have, because the replica has become readable."""
        ...


class LiveReplica(Follower):
    """The replica of one topic. `waits` limits the calls that wait for any replica of the server, since each
    of them occupies one of its threads."""

    def __init__(
        self, log: Log, topic: str, to_rows: ToRows, suffix: int, folder: Path, waits: threading.Semaphore
    ) -> None:
        super().__init__(topic, f"tidegate-replica-{topic}")
        self.topic = topic
        self._log = log
        self._to_rows = to_rows
        self._suffix = suffix
        self._folder = folder
        self._waits = waits
        self._replica: Replica | None = None
        self._uid = ""
        self._builds = 0
        self._open_snapshots = 0
        self._growing = False
        self._positions: dict[int, int] = {}
        self._first_ends: dict[int, int] | None = None
        """The ends of the topic when reading last started. Until they are reached, there is no snapshot."""
        self._version = 0
        """Counts the changes of the rows."""
        self._watcher: Watcher | None = None
        self._is_readable = False
        self._thread.start()

    def watch(self, watcher: Watcher) -> None:
        """Report changes to this watcher from now on, in place of an earlier one."""
        self._watcher = watcher

    def read(self, partition: int, key: bytes) -> tuple[bytes | None, int] | None:
        """Return a row and the position of its partition, without waiting; None while nothing can be read."""
        with self._changed:
            replica = self._replica
            if replica is None or not self._has_reached({}):
                return None
            self._open_snapshots += 1
        try:
            return replica.read(partition, key)
        finally:
            with self._changed:
                self._open_snapshots -= 1
                self._changed.notify_all()

    def position(self, partition: int) -> int | None:
        """The position of a partition; None while nothing can be read."""
        with self._changed:
            return self._positions.get(partition) if self._has_reached({}) else None

    @contextmanager
    def snapshot(self, at_least: Mapping[int, int], seconds: float) -> Iterator[ReplicaSnapshot]:
        """Wait for the positions of `at_least` and yield a snapshot of the rows. Raises LogError
        `replica-behind` if that takes too long."""
        self.used = time.monotonic()
        deadline = self.used + seconds
        with self._changed:
            if not self._has_reached(at_least):
                with self._count_wait():
                    self._wait(lambda: self._has_reached(at_least), deadline)
            replica = self._replica
            if replica is None or not self._has_reached(at_least):
                raise self._behind()
            self._open_snapshots += 1
        try:
            with replica.snapshot() as snapshot:
                yield snapshot
        finally:
            with self._changed:
                self._open_snapshots -= 1
                self._changed.notify_all()

    def wait_for(self, reached: Callable[[ReplicaSnapshot], bool], seconds: float) -> bool:
        """Check the condition now and after each change. Returns False if it is not reached in time."""
        deadline = time.monotonic() + seconds
        while True:
            with self._changed:
                checked = self._version
            with self.snapshot({}, deadline - time.monotonic()) as snapshot:
                if reached(snapshot):
                    return True
            with self._changed, self._count_wait():
                if not self._wait(lambda checked=checked: self._version != checked, deadline):  # type: ignore[misc]
                    return False

    def close(self) -> None:
        """End, wait for the thread and for open snapshots, and delete the replica."""
        super().close()
        self._delete()

    @contextmanager
    def _count_wait(self) -> Iterator[None]:
        """Count a waiting call; raises LogError `too-many-wait` if there are too many already."""
        if not self._waits.acquire(blocking=False):
            raise LogError("too-many-wait", "too many calls wait already", "try again soon", retryable=True)
        try:
            yield
        finally:
            self._waits.release()

    def _has_reached(self, at_least: Mapping[int, int]) -> bool:
        if self._first_ends is None or self._replica is None or self._growing:
            return False
        positions = self._positions
        if not at_least.keys() <= positions.keys():
            raise ConfigError(
                "bad-position",
                f"the position names a partition that topic {self.topic!r} does not have",
                "send the position of a response unchanged",
            )
        needed = (*self._first_ends.items(), *at_least.items())
        return all(positions[number] >= offset for number, offset in needed)

    def _progress(self) -> str:
        read, end = sum(self._positions.values()), sum((self._first_ends or {}).values())
        return f"this server has read {self.topic} to {read:,} of {max(read, end):,}"

    def _recover(self, error: TidegateError) -> bool:
        if error.code == "map-full":
            self._grow()
            return True
        if error.code in REBUILD_CODES:
            self._delete()
        return False

    def _follow(self) -> None:
        info = self._log.describe(self.topic)
        if self._replica is None or info.uid != self._uid:
            self._build(info)
        ends = self._log.ends(TopicPartition(self.topic, number) for number in self._positions)
        with self._changed:
            self._first_ends = {partition.partition: int(end) for partition, end in ends.items()}
            self._changed.notify_all()
        self._report(())
        starts = {TopicPartition(self.topic, number): Offset(at) for number, at in self._positions.items()}
        with closing(self._log.reader(starts)) as reader:
            while not self._ended.is_set():
                fetched = reader.poll(POLL_SECONDS)
                if fetched:
                    self._apply(fetched)
                self._clear_trouble()

    def _build(self, info: TopicInfo) -> None:
        """Step 1, for a new topic: replace the replica by an empty one."""
        self._delete()
        self._builds += 1
        created = Replica(self._folder / str(self._builds), info.partitions, self._suffix, info.starts)
        with self._changed:
            self._replica, self._first_ends = created, None
            self._positions = dict(enumerate(info.starts))
        self._uid = info.uid

    def _apply(self, fetched: list[Fetched]) -> None:
        assert self._replica is not None  # noqa: S101 - built before its topic is read
        rows: dict[int, tuple[list[RawRow], int]] = {}
        for part in fetched:
            number = part.partition.partition
            before = rows.get(number, ([], 0))[0]
            rows[number] = (before + self._to_rows(part.batch), int(part.next))
        self._replica.apply(rows)
        with self._changed:
            self._positions.update({number: position for number, (_, position) in rows.items()})
            self._version += 1
            self._changed.notify_all()
        self._report(rows.values())

    def _report(self, applied: Iterable[tuple[list[RawRow], int]]) -> None:
        """Step 4. When the replica becomes readable, each row counts as changed."""
        was_readable = self._is_readable
        with self._changed:
            self._is_readable = self._has_reached({})
        watcher = self._watcher
        if watcher is None or not self._is_readable:
            return
        if not was_readable:
            watcher.changed(None)
            return
        watched = watcher.keys
        changed = [key for rows, _ in applied for key, _ in rows if key in watched]
        if changed:
            watcher.changed(changed)

    def _grow(self) -> None:
        """Enlarge the map of the replica: no snapshot may be open, and none is opened meanwhile."""
        with self._changed:
            self._growing = True
            self._is_readable = False
            try:
                while self._open_snapshots:
                    self._changed.wait()
                if self._replica is not None:
                    self._replica.grow()
            finally:
                self._growing = False
                self._changed.notify_all()

    def _delete(self) -> None:
        """Delete the replica once no snapshot of it is open."""
        with self._changed:
            deleted, self._replica, self._first_ends, self._uid = self._replica, None, None, ""
            self._is_readable = False
            while self._open_snapshots:
                self._changed.wait()
        if deleted is not None:
            deleted.close()
            shutil.rmtree(deleted.folder, ignore_errors=True)
