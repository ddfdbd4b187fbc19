"""Checkpoints, retention, compaction, merging and shrinking, by one process at a time.

Whoever gets the lock beside the file does the work for everyone and keeps the lock until it closes; the
others ask again now and then. Each piece of work is a short transaction, so live commits slip in between.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import apsw

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.sqlite.catalog import Catalog, Entry
from tidegate.log.sqlite.compact import compact, is_due
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.layout import PAGE_SIZE
from tidegate.log.sqlite.merge import merge_small
from tidegate.log.sqlite.retention import retain, sweep_deleted
from tidegate.log.sqlite.words import in_our_words

WAL_SOFT_BYTES = 4 << 20
WAL_HARD_BYTES = 8 << 20
PASSES = 4
HOLD_OFF_SECONDS = 0.05
TICK_SECONDS = 0.05
ASK_SECONDS = 0.25
ROUND_SECONDS = 5.0
VACUUM_PAGES = 64
SPARE_PAGES, SPARE_SHARE = 16, 1 / 16


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

    @property
    def held(self) -> bool:
        """Whether the lock was ours when last asked for."""
        return self._handle is not None

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
        self._hold_off_at = WAL_HARD_BYTES

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
        """The holder looks often: checkpoints in small portions do not keep live commits from the disk."""
        due = time.monotonic() + ROUND_SECONDS
        while not self._stop.wait(TICK_SECONDS if self._lock.held else ASK_SECONDS):
            # A failure here shows again in the caller's next write; until then there is nobody to tell.
            with suppress(LogError, apsw.Error, OSError):
                if self._lock.take() and self._working.acquire(blocking=False):
                    try:
                        self._checkpoint()
                        if time.monotonic() >= due:
                            due = time.monotonic() + ROUND_SECONDS
                            self._round(None)
                    finally:
                        self._working.release()

    def _round(self, topic: str | None) -> None:
        now = self._clock.now()
        sweep_deleted(self._database)
        for entry in [self._catalog.find(topic)] if topic else self._catalog.entries():
            if self._stop.is_set():
                return
            try:
                self._tend(entry, now, force=topic is not None)
            except LogError as error:
                if topic or error.code != "no-such-topic":  # deleted meanwhile: the others still want it
                    raise
        self._shrink()
        self._checkpoint()

    def _tend(self, entry: Entry, now: int, *, force: bool) -> None:
        for partition in entry.partitions:
            retain(self._database, entry.info, partition, now)
            if entry.info.compacts and (force or is_due(self._database, entry.info, partition, now)):
                compact(self._database, entry.info, partition.id, now, self._breathe)
            else:
                merge_small(self._database, partition)
                self._breathe()

    def _breathe(self) -> bool:
        """Between two pieces of work: keep the WAL short. Whether to go on, which a close ends."""
        self._checkpoint()
        return not self._stop.is_set()

    def _shrink(self) -> None:
        """Give free pages back to the file system, some at a time. A few stay: they are used again soon."""
        while not self._stop.is_set():
            with self._database.write(sync=False) as connection:
                spare = max(SPARE_PAGES, int(SPARE_SHARE * connection.pragma("page_count")))
                left = connection.pragma("freelist_count") - spare
                if left > 0:
                    connection.execute(f"PRAGMA incremental_vacuum({min(left, VACUUM_PAGES)})").fetchall()
            if left <= VACUUM_PAGES:
                return
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Move the WAL into the file, once it is long enough to be worth the syncs.

        Passive, which waits for nobody. But commits go on meanwhile, and the WAL starts over only when all
        of it was moved; so another pass moves what came during the one before, and takes less time. If
        that does not help and the WAL gets far too long, writers are held off for a moment.
        """
        if self._wal is None or not self._wal.exists():
            return
        if self._connection is None:
            self._connection = self._database.connect(busy_seconds=HOLD_OFF_SECONDS)
            self._connection.pragma("data_version")  # looks at the WAL: before, SQLite cannot tell its length
        pages = moved = 0
        for _ in range(PASSES):
            pages, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if pages * PAGE_SIZE < WAL_SOFT_BYTES or pages == moved:
                return
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if pages * PAGE_SIZE >= self._hold_off_at:
            self._hold_off(self._connection, pages)

    def _hold_off(self, connection: apsw.Connection, pages: int) -> None:
        """A checkpoint that keeps writers waiting. A reader that does not end is not waited for: the next
        try comes when the WAL is twice as long."""
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            self._hold_off_at = WAL_HARD_BYTES
        except apsw.BusyError:
            self._hold_off_at = 2 * pages * PAGE_SIZE
