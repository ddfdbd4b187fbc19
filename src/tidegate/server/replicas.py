"""The replicas of a server: of whatever was asked for once, and moments of several of them."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from tidegate.errors import ConfigError
from tidegate.log.protocol import Log
from tidegate.server.follower_pool import FollowerPool, PoolSize
from tidegate.server.live_replica import LiveReplica, ToRows
from tidegate.state.changelog import to_rows
from tidegate.state.formats import LAYOUTS, Format
from tidegate.state.protocol import RawRow
from tidegate.state.replica import Snapshot
from tidegate.types import TopicPartition

HISTORY = "history"
"""In place of a store's kind: a topic of which every record is kept, in the order of its offsets."""
SUFFIX = 8
SIZE = PoolSize(most=256, limit=256)
WAITING = 50
"""So many calls may wait for a position or for a status to be applied; further calls are refused."""
_PREFIX = "replicas-"
_LOCK = "lock"


class ReplicaSnapshots:
    """Several topics, each as of one position."""

    def __init__(self, snapshots: Mapping[str, Snapshot]) -> None:
        self._snapshots = snapshots

    def get(self, topic: str, partition: int, key: bytes) -> bytes | None:
        return self._snapshots[topic].get(partition, key)

    def scan(self, topic: str, partition: int, behind: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        lower = None if behind is None else (behind + b"\x00", b"")
        return self._snapshots[topic].scan(partition, lower, None)

    def of(self, topic: str) -> Snapshot:
        return self._snapshots[topic]

    def history(self, topic: str, key: bytes) -> Iterator[bytes]:
        snapshot = self._snapshots[topic]
        for number in snapshot.positions:
            for _, value in snapshot.scan(number, (key, b""), (key + b"\x00", b"")):
                yield value

    def position(self, partition: int | None = None) -> dict[TopicPartition, int]:
        """Where its topics stood, in all partitions or one."""
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

    def following(self, topic: str, kind: str) -> LiveReplica:
        """The one of a topic. `kind` is that of the store whose changelog it is, or HISTORY."""

        def create() -> LiveReplica:
            rows, suffix = _rows_of(kind)
            folder = self._folder / f"{next(self._folders)}-{topic}"
            return LiveReplica(self._log, topic, rows, suffix, folder, self._waits)

        return self._pool.get(topic, create)

    @contextmanager
    def moment(
        self, topics: Mapping[str, str], at_least: Mapping[TopicPartition, int], seconds: float
    ) -> Iterator[ReplicaSnapshots]:
        """Topics with their kinds, once they hold what is asked for."""
        for topic, _ in at_least:
            if topic not in topics:
                raise ConfigError(
                    "bad-position", "this position is of another question", "hand back the one of this answer"
                )
        with ExitStack() as stack:
            found = {
                topic: stack.enter_context(
                    self.following(topic, kind).snapshot(_of(topic, at_least), seconds)
                )
                for topic, kind in topics.items()
            }
            yield ReplicaSnapshots(found)

    def troubles(self) -> list[str]:
        """What keeps replicas from getting on. A topic that is gone is missed by nobody."""
        found = [(topic, one.trouble) for topic, one in self._pool.items().items()]
        return [f"{topic}: {told}" for topic, told in found if told and told.code != "no-such-topic"]

    def end(self) -> None:
        """Wake all waiting calls and refuse new ones."""
        self._pool.end()

    def close(self) -> None:
        self._pool.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock_file)


def _of(topic: str, at_least: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {partition.partition: offset for partition, offset in at_least.items() if partition.topic == topic}


def _rows_of(kind: str) -> tuple[ToRows, int]:
    if kind == HISTORY:
        return _numbered, SUFFIX
    layout = LAYOUTS[kind]
    return _changes(layout), layout.suffix


def _changes(layout: Format) -> Callable[[pa.RecordBatch], list[RawRow]]:
    return lambda batch: to_rows(batch, layout)


def _numbered(batch: pa.RecordBatch) -> list[RawRow]:
    """Each record as a row of its own, behind those of the same key."""
    offsets, keys, values = (batch.column(at).to_pylist() for at in (0, 2, 3))
    return [
        ((key or b"") + offset.to_bytes(SUFFIX, "big"), value)
        for offset, key, value in zip(offsets, keys, values, strict=True)
        if value is not None
    ]


def _own_folder(home: Path) -> tuple[Path, int]:
    """A new folder, held by a lock on a file in it. Those whose holder is gone are removed."""
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{_PREFIX}*"):
        if (held := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(held)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        if (held := _locked(folder)) is not None:  # else another server took it for one that is left
            return folder, held


def _locked(folder: Path) -> int | None:
    """The lock of a folder, if nobody holds it."""
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
