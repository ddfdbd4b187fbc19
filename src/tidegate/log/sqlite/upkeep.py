"""Checkpoints, retention, compaction, merging, sweeping and shrinking, by one process at a time.

Every process that writes looks at the WAL often, and at what else is due every few seconds. Whoever finds
something to do takes the lock beside the file, does it for all, and releases the lock: a process that is
stopped between rounds keeps nobody from the work. Each piece of work is a short transaction, so live commits
slip in between.

A process that is stopped within a round keeps the lock. Then the others still move the WAL, once it is twice
as long as it should get, but nobody retains or compacts until that process goes on or ends; `tidegate doctor`
shows it. One that is stopped inside of SQLite's own checkpoint keeps the WAL as well: it grows meanwhile.

A topic that cannot be worked on (a damaged batch, say) is reported and does not keep the others from their
turn.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.faultpoints import reach
from tidegate.log.sqlite.catalog import Catalog
from tidegate.log.sqlite.compact import compact, is_due
from tidegate.log.sqlite.database import Database, fetch
from tidegate.log.sqlite.error_mapping import translated_errors
from tidegate.log.sqlite.layout import PAGE_SIZE
from tidegate.log.sqlite.merge import merge_small
from tidegate.log.sqlite.old_writers import NOTE_MS, note_live, sweep_writers
from tidegate.log.sqlite.retention import retain, sweep_deleted
from tidegate.log.sqlite.upkeep_lock import Report, Trouble, UpkeepLock

WAL_SOFT_BYTES = 4 << 20
WAL_HARD_BYTES = 8 << 20
WAL_ALONE_BYTES = 16 << 20
"""From here on the WAL is moved without the lock: its holder does not do it."""
PASSES = 4
HOLD_OFF_SECONDS = 0.05
TICK_SECONDS = 0.05
ROUND_SECONDS = 5.0
LOCK_SECONDS = 10.0
VACUUM_PAGES = 64
SPARE_PAGES, SPARE_SHARE = 16, 1 / 16
_WHOLE_LOG = frozenset(["closed", "commit-unknown", "forked", "log-busy"])
"""What the next topic would fail with too."""
_log = logging.getLogger("tidegate.log")


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
        self._due = 0.0

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

    def report(self) -> Report:
        """How the last round of any process went, or goes."""
        return self._lock.read()

    def run(self, topic: str | None = None) -> None:
        """Do what is due now; with a topic, compact that one to its end whether due or not. Raises the first
        thing that could not be done, when all else is done."""
        if self._stop.is_set():
            raise LogError("closed", "the log is closed", "open it again")
        with self._working, translated_errors():
            deadline = time.monotonic() + (LOCK_SECONDS if topic is not None else 0.0)
            while not self._lock.take():
                if time.monotonic() < deadline:
                    time.sleep(TICK_SECONDS)
                    continue
                if topic is None:
                    return
                raise LogError(
                    "upkeep-elsewhere",
                    "another process does the upkeep of this log, and takes long",
                    "it compacts by itself; or try again later",
                    retryable=True,
                )
            try:
                if topic is None:
                    failures = self._reported_round()
                else:
                    troubles: list[tuple[str, LogError]] = []
                    self._round(topic, troubles)
                    failures = [error for _, error in troubles]
            finally:
                self._lock.release()
        if failures:
            raise failures[0]

    def _loop(self) -> None:
        """Look often: checkpoints in small portions do not keep live commits from the disk."""
        self._due = time.monotonic() + ROUND_SECONDS
        noted = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            try:
                if time.monotonic() >= noted + NOTE_MS / 1000:
                    noted = time.monotonic()
                    note_live(self._database, self._clock.now())
                self._tick()
            except (LogError, apsw.Error, OSError):
                pass  # it shows again in the caller's next write; until then there is nobody to tell
            except Exception:  # noqa: BLE001 - else nobody would move the WAL any more
                _log.exception("the upkeep of the log failed; it goes on")

    def _tick(self) -> None:
        if not self._working.acquire(blocking=False):
            return
        try:
            unmoved = self._unmoved()
            due = time.monotonic() >= self._due
            if unmoved < WAL_SOFT_BYTES and not due:
                return
            if not self._lock.take():
                if unmoved >= WAL_ALONE_BYTES:
                    self._checkpoint()
                return
            try:
                self._checkpoint()
                if due:
                    self._round_if_due()
            finally:
                self._lock.release()
            reach("log.upkeep.2")
        finally:
            self._working.release()

    def _round_if_due(self) -> None:
        """Unless another process just did it."""
        age = time.time() - self._lock.read().ended
        self._due = time.monotonic() + ROUND_SECONDS
        if 0 <= age < ROUND_SECONDS:
            self._due -= age
            return
        self._reported_round()

    def _reported_round(self) -> list[LogError]:
        """A round over everything, and what it could not do, which the report holds too."""
        before = {(one.what, one.code) for one in self._lock.read().troubles}
        report = Report(os.getpid(), time.time())
        self._lock.write(report)
        troubles: list[tuple[str, LogError]] = []
        try:
            self._round(None, troubles)
        finally:
            told = tuple(Trouble(what, error.code, error.message) for what, error in troubles)
            self._lock.write(Report(report.pid, report.began, time.time(), told))
        for what, error in troubles:
            if (what, error.code) not in before:
                _log.error("upkeep of the log: %s: %s", what, error)
        return [error for _, error in troubles]

    def _round(self, topic: str | None, troubles: list[tuple[str, LogError]]) -> None:
        reach("log.upkeep.1")
        now = self._clock.now()
        if topic is None:
            with _apart("deleted topics", troubles):
                sweep_deleted(self._database)
            with _apart("writers that are gone", troubles):
                sweep_writers(self._database, now)
        for name in [topic] if topic is not None else self._names():
            if self._stop.is_set():
                return
            with _apart(f"topic {name!r}", troubles, deleted_meanwhile=topic is None):
                self._tend(name, now, troubles, force=topic is not None)
        with _apart("free pages", troubles):
            self._shrink()
        self._checkpoint()

    def _names(self) -> list[str]:
        """As they stand there: a damaged row is found out when it has its turn."""
        with self._database.read() as connection:
            rows = fetch(connection, "SELECT name FROM topic WHERE name IS NOT NULL ORDER BY id")
        return [str(name) for (name,) in rows]

    def _tend(self, name: str, now: int, troubles: list[tuple[str, LogError]], *, force: bool) -> None:
        entry = self._catalog.find(name)
        for partition in entry.partitions:
            what = f"topic {name!r}, partition {partition.number}"
            with _apart(what, troubles, deleted_meanwhile=not force):
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
        connection = self._looking()
        if connection is None:
            return
        pages = moved = 0
        for _ in range(PASSES):
            pages, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if pages * PAGE_SIZE < WAL_SOFT_BYTES or pages == moved:
                return
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if pages * PAGE_SIZE >= self._hold_off_at:
            self._hold_off(connection, pages)

    def _unmoved(self) -> int:
        """How long the WAL is, if something of it is not in the file yet."""
        connection = self._looking()
        if connection is None:
            return 0
        pages, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        return 0 if pages == moved else pages * PAGE_SIZE

    def _looking(self) -> apsw.Connection | None:
        """The connection for checkpoints, once there is a WAL."""
        if self._wal is None or not self._wal.exists():
            return None
        if self._connection is None:
            self._connection = self._database.connect(busy_seconds=HOLD_OFF_SECONDS)
            self._connection.pragma("data_version")  # looks at the WAL: before, SQLite cannot tell its length
        return self._connection

    def _hold_off(self, connection: apsw.Connection, pages: int) -> None:
        """A checkpoint that keeps writers waiting. A reader that does not end is not waited for: the next
        try comes when the WAL is twice as long."""
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            self._hold_off_at = WAL_HARD_BYTES
        except apsw.BusyError:
            self._hold_off_at = 2 * pages * PAGE_SIZE


@contextmanager
def _apart(
    what: str, troubles: list[tuple[str, LogError]], *, deleted_meanwhile: bool = False
) -> Iterator[None]:
    """A part of a round that may fail alone. What concerns the whole log ends the round."""
    try:
        with translated_errors():
            yield
    except LogError as error:
        if error.code in _WHOLE_LOG:
            raise
        if not (deleted_meanwhile and error.code == "no-such-topic"):
            troubles.append((what, error))
