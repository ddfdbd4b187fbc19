"""A replica of a topic's rows, independent of the tasks: built by reading the topic, readable by any thread.

One thread applies the records that it reads; others take consistent snapshots of all partitions, each with
the positions at which the rows are the fold of the topic. Nothing is synced: after a crash the replica is
rebuilt."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import lmdb

from tidegate.errors import StateError
from tidegate.state.environment import translated_errors
from tidegate.state.keys import Bound
from tidegate.state.lmdb_store import LmdbStore
from tidegate.state.protocol import RawRow

FIRST_MAP_BYTES = 4 << 30
"""Address space only: the file takes what is in it. But a process has no more than 2**47 addresses."""
READERS = 512
DAMAGED = "start the server again: it rebuilds its copy from the topic at each start"
_POSITIONS = b":positions"
_NUMBER = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")


class ReplicaSnapshot:
    """A consistent view of the rows. Only for the thread that took it, until it is closed."""

    def __init__(self, replica: Replica, txn: Any) -> None:
        self.folder = replica.folder
        self.scan_version = 0
        self.txn: Any = txn
        self._replica = replica
        self._stores: dict[int, LmdbStore] = {}
        self.positions: dict[int, int] = replica.positions(txn)
        """The next offset of each partition."""

    def get(self, partition: int, key: bytes) -> bytes | None:
        return self._store(partition).get(key)

    def scan(self, partition: int, lower: Bound | None, upper: Bound | None) -> Iterator[tuple[bytes, bytes]]:
        return self._store(partition).scan(lower, upper)

    def _store(self, partition: int) -> LmdbStore:
        if partition not in self._stores:
            self._stores[partition] = LmdbStore(self, str(partition), self._replica.suffix)
        return self._stores[partition]

    def close(self) -> None:
        """End the transaction, and forget it: LMDB's table of readers has a place for it until nothing refers
        to it, and the stores refer to this snapshot until the next garbage collection."""
        txn, self.txn = self.txn, None
        txn.abort()
        self._stores.clear()

    def database(self, name: str) -> Any:
        return self._replica.databases[int(name)]

    def touched(self, size: int) -> None:
        raise StateError("read-only", f"{size} bytes cannot be written here", "this is a bug: report it")

    def damaged(self) -> str:
        """Return the hint for the error; there is nothing to mark, since each start rebuilds the replica."""
        return DAMAGED


class Replica:
    """The rows of all partitions of one topic."""

    def __init__(self, folder: Path, partitions: int, suffix: int = 0, starts: Iterable[int] = ()) -> None:
        """`starts` are the initial positions."""
        self.folder = folder
        self.suffix = suffix
        with translated_errors(folder):
            folder.mkdir(parents=True)
            self._env: Any = lmdb.open(
                str(folder),
                map_size=FIRST_MAP_BYTES,
                max_dbs=partitions + 1,
                max_readers=READERS,
                sync=False,
                metasync=False,
            )
            try:
                self._positions: Any = self._env.open_db(_POSITIONS)
                self.databases: list[Any] = [
                    self._env.open_db(str(number).encode()) for number in range(partitions)
                ]
                self.apply({number: ((), start) for number, start in enumerate(starts)})
            except BaseException:
                self._env.close()
                raise

    def apply(self, changes: Mapping[int, tuple[Iterable[RawRow], int]]) -> None:
        """Apply rows of some partitions, each with the offset after them, atomically."""
        with translated_errors(self.folder), self._env.begin(write=True) as txn:
            writing = _Transaction(self, txn)
            for number, (rows, after) in changes.items():
                LmdbStore(writing, str(number), self.suffix).apply(rows)
                txn.put(_NUMBER.pack(number), _OFFSET.pack(after), db=self._positions)

    def positions(self, txn: Any) -> dict[int, int]:
        """Return the positions as a transaction sees them."""
        return {
            _NUMBER.unpack(number)[0]: _OFFSET.unpack(offset)[0]
            for number, offset in txn.cursor(db=self._positions)
        }

    @contextmanager
    def snapshot(self) -> Iterator[ReplicaSnapshot]:
        """Open a snapshot of the current rows."""
        with translated_errors(self.folder):
            txn = self._env.begin()
        with closing(ReplicaSnapshot(self, txn)) as opened:
            yield opened

    def read(self, partition: int, key: bytes) -> tuple[bytes | None, int]:
        """Return a row, and the position of its partition: cheaper than a snapshot of all partitions."""
        with translated_errors(self.folder), self._env.begin() as txn:
            found = LmdbStore(_Transaction(self, txn), str(partition), self.suffix).get(key)
            return found, _OFFSET.unpack(txn.get(_NUMBER.pack(partition), db=self._positions))[0]

    def grow(self) -> None:
        """Double the map. Only while no snapshot is open and nothing is being applied."""
        with translated_errors(self.folder):
            self._env.set_mapsize(2 * self._env.info()["map_size"])

    def close(self) -> None:
        """Close the replica. Only after all snapshots are closed."""
        self._env.close()


class _Transaction:
    """A transaction, in the form that a store needs."""

    def __init__(self, replica: Replica, txn: Any) -> None:
        self.folder = replica.folder
        self.scan_version = 0
        self.txn = txn
        self._replica = replica

    def database(self, name: str) -> Any:
        return self._replica.databases[int(name)]

    def touched(self, size: int) -> None:
        """Do nothing: a write transaction is committed at once."""

    def damaged(self) -> str:
        """Return the hint for the error; there is nothing to mark, since each start rebuilds the replica."""
        return DAMAGED
