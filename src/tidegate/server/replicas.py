"""The replicas of a server, one per topic that calls have read, and snapshots of several of them."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from tidegate.errors import ConfigError
from tidegate.log.protocol import Log
from tidegate.server.follower_pool import FollowerPool, PoolSize
from tidegate.server.live_replica import LiveReplica, ToRows
from tidegate.state.changelog import to_rows
from tidegate.state.formats import LAYOUTS
from tidegate.state.protocol import RawRow
from tidegate.state.replica import ReplicaSnapshot
from tidegate.types import TopicPartition

HISTORY = "history"
"""Used as the kind of a topic that is no changelog: all records are kept, by key and offset."""
SUFFIX = 8
"""The bytes of an offset at the end of a key."""
SIZE = PoolSize(soft_limit=256, hard_limit=256)
WAITING = 50
"""At most this many calls wait for a position or for a status to be applied; further calls are refused."""
_PREFIX = "replicas-"
_LOCK = "lock"


class ReplicaSnapshots:
    """One snapshot per topic, each at a position of its own."""

    def __init__(self, snapshots: Mapping[str, ReplicaSnapshot]) -> None:
        self._snapshots = snapshots

    def get(self, topic: str, partition: int, key: bytes) -> bytes | None:
        return self._snapshots[topic].get(partition, key)

    def scan(self, topic: str, partition: int, after: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        lower = None if after is None else (after + b"\x00", b"")
        return self._snapshots[topic].scan(partition, lower, None)

    def of(self, topic: str) -> ReplicaSnapshot:
        return self._snapshots[topic]

    def history(self, topic: str, key: bytes) -> Iterator[bytes]:
        snapshot = self._snapshots[topic]
        for number in snapshot.positions:
            for _, value in snapshot.scan(number, (key, b""), (key + b"\x00", b"")):
                yield value

    def position(self, partition: int | None = None) -> dict[TopicPartition, int]:
        """The positions of the snapshots, of all partitions or one."""
        return {
            TopicPartition(topic, number): offset
            for topic, snapshot in self._snapshots.items()
            for number, offset in snapshot.positions.items()
            if partition in (None, number)
        }


class Replicas:
    """By topic. A replica is created when it is first used, and the least recently used is evicted."""

    def __init__(self, log: Log, home: Path, size: PoolSize = SIZE) -> None:
        self._log = log
        self._folder, self._lock_file = _own_folder(home)
        self._pool: FollowerPool[LiveReplica] = FollowerPool(size)
        self._waits = threading.Semaphore(WAITING)
        self._folders = itertools.count(1)

    def replica_of(self, topic: str, kind: str) -> LiveReplica:
        """Return the replica of a topic. `kind` is that of the store whose changelog it is, or HISTORY."""

        def create() -> LiveReplica:
            rows, suffix = _layout_of(kind)
            folder = self._folder / f"{next(self._folders)}-{topic}"
            return LiveReplica(self._log, topic, rows, suffix, folder, self._waits)

        return self._pool.get(topic, create)

    @contextmanager
    def snapshots(
        self, topics: Mapping[str, str], at_least: Mapping[TopicPartition, int], seconds: float
    ) -> Iterator[ReplicaSnapshots]:
        """Wait for the positions of `at_least` and yield snapshots of topics, given with their kinds."""
        for topic, _ in at_least:
            if topic not in topics:
                raise ConfigError(
                    "bad-position",
                    f"the position names topic {topic!r}, which this request does not read",
                    "send the position of a response to the same request",
                )
        with ExitStack() as stack:
            found = {
                topic: stack.enter_context(
                    self.replica_of(topic, kind).snapshot(_offsets_of(topic, at_least), seconds)
                )
                for topic, kind in topics.items()
            }
            yield ReplicaSnapshots(found)

    def troubles(self) -> list[str]:
        """The errors of replicas that make no progress, except those whose topic was deleted."""
        found = [(topic, one.trouble) for topic, one in self._pool.by_name().items()]
        return [f"{topic}: {error}" for topic, error in found if error and error.code != "no-such-topic"]

    def end(self) -> None:
        """Wake all waiting calls and refuse new ones."""
        self._pool.end()

    def close(self) -> None:
        self._pool.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock_file)


def _offsets_of(topic: str, at_least: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {partition.partition: offset for partition, offset in at_least.items() if partition.topic == topic}


def _layout_of(kind: str) -> tuple[ToRows, int]:
    if kind == HISTORY:
        return _history_rows, SUFFIX
    layout = LAYOUTS[kind]
    return (lambda batch: to_rows(batch, layout)), layout.suffix


def _history_rows(batch: pa.RecordBatch) -> list[RawRow]:
    """Convert each record to a row of its own, ordered by key and offset."""
    offsets, keys, values = (batch.column(at).to_pylist() for at in (0, 2, 3))
    return [
        ((key or b"") + offset.to_bytes(SUFFIX, "big"), value)
        for offset, key, value in zip(offsets, keys, values, strict=True)
        if value is not None
    ]


def _own_folder(home: Path) -> tuple[Path, int]:
    """Create a folder and lock it; delete the folders of servers that ended without doing so."""
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{_PREFIX}*"):
        if (held := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(held)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        if (held := _locked(folder)) is not None:  # else another server is deleting it as left behind
            return folder, held


def _locked(folder: Path) -> int | None:
    """Lock a folder. Returns the file handle of the lock, or None if another process holds it."""
    try:
        file = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file
