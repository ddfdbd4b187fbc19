"""The SQLite file: its connections and short transactions.

One connection writes, under a lock; one serves short reads; each reader has its own connection, so that
`data_version` shows it that another connection committed. A few connections of closed readers are kept for
the next ones: opening one takes as long as several reads. No read transaction stays open across calls: an
open read prevents the WAL from being reset, and it would grow without bound.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from tidegate.errors import LogError
from tidegate.log.sqlite.error_mapping import translated_errors
from tidegate.log.sqlite.file_check import check_contents, check_file
from tidegate.log.sqlite.filesystem import MOUNTS, refuse_network_file_system
from tidegate.log.sqlite.layout import DDL, check, corrupt, seal

BUSY_SECONDS = 30.0
OLDEST_SQLITE = (3, 51, 3)
KEPT_CONNECTIONS = 4
_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI


class Database:
    """One SQLite log file, or an in-memory database that exists while a connection to it is open."""

    def __init__(
        self,
        path: Path | None,
        *,
        vfs: str | None = None,
        busy_seconds: float = BUSY_SECONDS,
        mounts: Path = MOUNTS,
    ) -> None:
        if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) < OLDEST_SQLITE:
            raise LogError(
                "old-sqlite",
                f"SQLite {apsw.sqlite_lib_version()} is too old: it may lose data",
                "install a newer one with: pip install -U apsw",
            )
        self.path = path
        self._vfs = vfs
        self._busy_seconds = busy_seconds
        self._lock = threading.RLock()
        self._read_lock = threading.RLock()
        self._pid = os.getpid()
        self._broken: LogError | None = None
        self._closed = False
        self._syncs = True
        self._kept: list[apsw.Connection] = []
        if path is None:
            self._name = f"file:/{uuid.uuid4().hex}?vfs=memdb"
        else:
            _prepare(path, vfs, mounts)
            self._name = path.absolute().as_uri() + (f"?vfs={vfs}" if vfs else "")
        self._writing = self.connect(create=path is None)
        with translated_errors(), _untouched_on_error(self._writing):
            if path is None:
                _create_tables(self._writing)
            else:
                check_contents(self._writing)
            self.id = _read_id(self._writing)
            self._reading = self.connect()

    def connect(self, *, create: bool = False, busy_seconds: float | None = None) -> apsw.Connection:
        """Open a connection with the common settings; `busy_seconds` overrides how long it waits for
        locks."""
        flags = _FLAGS | (apsw.SQLITE_OPEN_CREATE if create else 0)
        with translated_errors():
            connection = apsw.Connection(self._name, flags=flags)
            with _untouched_on_error(connection):
                connection.set_busy_handler(_BusyHandler(busy_seconds or self._busy_seconds))
                if self.path is not None:
                    connection.pragma("synchronous", "FULL")
                    connection.pragma("wal_autocheckpoint", 0)
                    connection.pragma("journal_size_limit", 64 << 20)
                connection.pragma("cache_size", -8192)
                connection.pragma("trusted_schema", 0)
        return connection

    def take_connection(self) -> apsw.Connection:
        """Return a connection for a reader: one that another reader has released, or a new one."""
        with self._read_lock:
            self.check()
            if self._kept:
                return self._kept.pop()
        return self.connect()

    def release(self, connection: apsw.Connection) -> None:
        """Keep the connection of a closed reader for the next one, or close it."""
        with self._read_lock, translated_errors():
            usable = not self._closed and os.getpid() == self._pid and not connection.in_transaction
            if usable and len(self._kept) < KEPT_CONNECTIONS:
                self._kept.append(connection)
            else:
                connection.close()

    @contextmanager
    def write(self, *, sync: bool = True) -> Iterator[apsw.Connection]:
        """Run one short write transaction. `sync=False` is for changes that only a later synced commit makes
        visible, and for changes that a crash may undo.

        A failure before COMMIT rolls back. If COMMIT itself fails with an I/O error, it is unknown whether
        the transaction would survive a crash: `commit-unknown`, and this object is unusable from then on.
        """
        with self._lock, translated_errors():
            self.check()
            connection = self._writing
            if self.path is not None and sync is not self._syncs:
                connection.pragma("synchronous", "FULL" if sync else "NORMAL")
                self._syncs = sync
            connection.execute("BEGIN IMMEDIATE")
            try:
                changes = connection.total_changes()
                yield connection
                if sync and connection.total_changes() > changes:
                    connection.execute("UPDATE synced SET commits = commits + 1")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except apsw.IOError as error:
                self._broken = LogError(
                    "commit-unknown",
                    f"the commit failed on disk ({error}); reopening the log shows whether it took effect",
                    "open the log and the writer again, and read the positions",
                )
                raise self._broken from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def sync_wal(self) -> None:
        """Sync unsynced commits to disk while holding no lock: the next synced commit, which blocks other
        writers, then has little left to sync. This is for speed, not for safety."""
        if self.path is not None and (wal := self.path.with_name(self.path.name + "-wal")).exists():
            with translated_errors(), wal.open("rb") as file:
                os.fdatasync(file.fileno())

    def version(self) -> int:
        """Return a number that changes whenever any other connection, of any process, commits."""
        with self._read_lock, translated_errors():
            self.check()
            version: int = self._reading.pragma("data_version")
            return version

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Run one short read transaction: all queries inside see the same snapshot."""
        with self._read_lock:
            self.check()
            with snapshot(self._reading):
                yield self._reading

    def close(self) -> None:
        """Close the connections; idempotent. The last connection moves the WAL into the file; if that fails,
        all data is still in the WAL."""
        with self._lock, self._read_lock, translated_errors():
            self._closed = True
            try:
                for connection in (*self._kept, self._reading):
                    connection.close()
            finally:
                self._kept.clear()
                self._writing.close()

    def check(self) -> None:
        """Raise LogError if this object can no longer be used: `commit-unknown`, `closed` or `forked`."""
        if self._broken is not None:
            raise self._broken
        if self._closed:
            raise LogError("closed", "the log is closed", "open it again")
        if os.getpid() != self._pid:
            raise LogError(
                "forked", "the log was opened by the parent process", "open the log in each process"
            )


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """Run one short read transaction on the caller's own connection."""
    with translated_errors():
        connection.execute("BEGIN")
        try:
            yield
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")


def fetch(connection: apsw.Connection, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return list(connection.execute(query, values))


class _BusyHandler:
    """Waits for the write lock with short sleeps: SQLite's own back-off sleeps longer than a commit takes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._deadline = now + self._seconds
        if now >= self._deadline:
            return False
        time.sleep(random.uniform(0.0001, 0.0005))
        return True


@contextmanager
def _untouched_on_error(connection: apsw.Connection) -> Iterator[None]:
    """Leave the file unchanged if it is refused: closing the last connection would otherwise move the WAL
    into it and delete the WAL."""
    try:
        yield
    except BaseException:
        wal = Path(connection.filename_wal)
        if wal.is_file() and wal.stat().st_size:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
        raise


def _prepare(path: Path, vfs: str | None, mounts: Path) -> None:
    """Check that `path` is an intact log, or create one: as a temporary file that is then hard-linked to
    `path`, so that neither a crash nor a second process ever finds an incomplete log."""
    with translated_errors():
        refuse_network_file_system(path, mounts)
        if path.is_dir():
            raise LogError("not-a-log", f"{path} is a folder", "use the path of a file")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path, vfs)
        check_file(path, vfs)


def _make(path: Path, vfs: str | None) -> None:
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        connection = apsw.Connection(str(draft), vfs=vfs)
        try:
            _create_tables(connection)
        finally:
            connection.close()
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)
    _sync_folder(path.parent)


def _create_tables(connection: apsw.Connection) -> None:
    connection.execute(DDL).fetchall()
    connection.execute("INSERT INTO synced VALUES (0)")
    values = {"log-id": uuid.uuid4().hex}
    for key, value in values.items():
        connection.execute("INSERT INTO meta VALUES (?, ?, ?)", (key, value, seal(key, value)))


def _read_id(connection: apsw.Connection) -> str:
    row = connection.execute("SELECT key, value, seal FROM meta WHERE key = 'log-id'").fetchone()
    if row is None:
        raise corrupt("it has no id")
    check("the id of the log", row)
    return str(row[1])


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
