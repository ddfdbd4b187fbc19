"""A copy of a topic's rows beside the tasks: built by reading the topic, read by any thread.

One thread applies what was read; others take snapshots, each of one moment in all partitions, with the
positions at which the rows are the fold of the topic. Nothing is synced: after a crash it is built again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from tidegate.errors import StateError
from tidegate.state.environment import translated_errors
from tidegate.state.keys import Bound
from tidegate.state.lmdb_store import LmdbStore
from tidegate.state.protocol import RawRow

FIRST_MAP_BYTES = 4 << 30
"""Only addresses: a file takes what is in it. But there are no more than 2**47 of them."""
READERS = 512
_POSITIONS = b":positions"
_NUMBER = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")


class Snapshot:
    """The rows of one moment. For the thread that took it, until it is closed."""

    def __init__(self, replica: Replica, txn: Any) -> None:
        self.folder = replica.folder
        self.turn = 0
        self.txn = txn
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

    def database(self, name: str) -> Any:
        return self._replica.databases[int(name)]

    def touched(self, size: int) -> None:
        raise StateError("read-only", f"{size} bytes cannot be written here", "this is a bug: report it")

    def damaged(self) -> str:
        """Nothing to remember: it is built from the topic at the next start."""
        return "start the server again: its copy is built from the topic at each start"


class Replica:
    """The rows of all partitions of one topic."""

    def __init__(self, folder: Path, partitions: int, suffix: int = 0, starts: Iterable[int] = ()) -> None:
        """`starts` are the positions to begin with."""
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
        """Rows of some partitions, each with the offset behind them: all or none of it shows."""
        with translated_errors(self.folder), self._env.begin(write=True) as txn:
            writing = _Writing(self, txn)
            for number, (rows, behind) in changes.items():
                LmdbStore(writing, str(number), self.suffix).apply(rows)
                txn.put(_NUMBER.pack(number), _OFFSET.pack(behind), db=self._positions)

    def positions(self, txn: Any) -> dict[int, int]:
        """As of a transaction."""
        return {
            _NUMBER.unpack(number)[0]: _OFFSET.unpack(offset)[0]
            for number, offset in txn.cursor(db=self._positions)
        }

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The rows as they are now."""
        with translated_errors(self.folder):
            txn = self._env.begin()
        try:
            yield Snapshot(self, txn)
        finally:
            txn.abort()

    def grow(self) -> None:
        """Twice the room. Only when no snapshot is open and nothing is applied."""
        with translated_errors(self.folder):
            self._env.set_mapsize(2 * self._env.info()["map_size"])

    def close(self) -> None:
        """Only when no snapshot is open any more."""
        self._env.close()


class _Writing:
    """The write transaction as a store sees it."""

    def __init__(self, replica: Replica, txn: Any) -> None:
        self.folder = replica.folder
        self.turn = 0
        self.txn = txn
        self._replica = replica

    def database(self, name: str) -> Any:
        return self._replica.databases[int(name)]

    def touched(self, size: int) -> None:
        """It is committed at once."""

    def damaged(self) -> str:
        """Nothing is read here."""
        return ""
