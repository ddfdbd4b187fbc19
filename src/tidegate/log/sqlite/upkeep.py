"""Checkpoints, retention, compaction, merging and shrinking, by one process at a time.

Whoever gets the lock beside the file does the work for everyone and keeps the lock until it closes; the
others ask again now and then. Each piece of work is a short transaction, so live commits slip in between.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path

import apsw

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.sqlite.catalog import Catalog, Entry
from tidegate.log.sqlite.compact import compact, is_due
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.merge import merge_small
from tidegate.log.sqlite.retention import retain, sweep_deleted
from tidegate.log.sqlite.words import in_our_words

WAL_SOFT_BYTES = 4 << 20
WAL_HARD_BYTES = 256 << 20
TICK_SECONDS = 0.25
ROUND_TICKS = 20
VACUUM_PAGES = 256


class UpkeepLock:
    """An advisory lock on a file beside the log; in memory there is nobody to share with."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self) -> bool:
        """Whether the lock is ours now."""
        if self._path is None or self._handle is not None:
            return True
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class Upkeep:
    """The worker thread of one open log, and the work itself for callers that want it now."""

    def __init__(self, database: Database, catalog: Catalog, clock: Clock) -> None:
        self._database = database
        self._catalog = catalog
        self._clock = clock
        path = database.path
        self._lock = UpkeepLock(path.with_name(path.name + "-upkeep") if path else None)
        self._wal = path.with_name(path.name + "-wal") if path else None
        self._working = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: apsw.Connection | None = None

    def start(self) -> None:
        """Start the thread, once; a log that is only read needs none."""
        if self._thread is None and self._wal is not None:
            self._thread = threading.Thread(target=self._loop, name="tidegate-upkeep", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
        self._lock.release()

    def run(self, topic: str | None = None) -> None:
        """Do what is due now; with a topic, compact that one to its end whether due or not."""
        if self._stop.is_set():
            raise LogError("closed", "the log is closed", "open it again")
        with in_our_words():
            held = self._lock.take()
        if not held and topic is not None:
            raise LogError(
                "upkeep-elsewhere",
                "another process does the upkeep of this log",
                "it compacts by itself; or stop it first",
                retryable=True,
            )
        if held:
            with self._working, in_our_words():
                self._round(topic)

    def _loop(self) -> None:
        tick = 0
        while not self._stop.wait(TICK_SECONDS):
            tick += 1
            # A failure here shows again in the caller's next write; until then there is nobody to tell.
            with suppress(LogError, apsw.Error, OSError):
                if self._lock.take() and self._working.acquire(blocking=False):
                    try:
                        self._checkpoint()
                        if tick % ROUND_TICKS == 0:
                            self._round(None)
                    finally:
                        self._working.release()

    def _round(self, topic: str | None) -> None:
        now = self._clock.now()
        sweep_deleted(self._database)
        for entry in [self._catalog.find(topic)] if topic else self._catalog.entries():
            if self._stop.is_set():
                return
            self._tend(entry, now, force=topic is not None)
        self._shrink()
        self._checkpoint()

    def _tend(self, entry: Entry, now: int, *, force: bool) -> None:
        for partition in entry.partitions:
            retain(self._database, entry.info, partition, now)
            if entry.info.compacts and (force or is_due(self._database, entry.info, partition, now)):
                compact(self._database, entry.info, partition.id, now)
            else:
                merge_small(self._database, partition)

    def _shrink(self) -> None:
        """Give free pages back to the file system, some at a time."""
        while not self._stop.is_set():
            with self._database.write(sync=False) as connection:
                free = connection.pragma("freelist_count")
                if free > VACUUM_PAGES:
                    connection.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
            if free <= 2 * VACUUM_PAGES:
                return

    def _checkpoint(self) -> None:
        """Move the WAL into the file. Passive: waits for nobody, unless the WAL got far too long."""
        if self._wal is None or not self._wal.exists():
            return
        size = self._wal.stat().st_size
        if size < WAL_SOFT_BYTES:
            return
        if self._connection is None:
            self._connection = self._database.connect()
        mode = apsw.SQLITE_CHECKPOINT_PASSIVE if size < WAL_HARD_BYTES else apsw.SQLITE_CHECKPOINT_TRUNCATE
        self._connection.wal_checkpoint(mode=mode)
