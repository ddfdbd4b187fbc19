"""Checkpoints, retention, compaction, merging, sweeping and shrinking, by one process at a time.

Every process that writes checks the WAL often, and what else is due every few seconds. A process that finds
something due takes the lock file next to the log, does the work for all processes, and releases the lock: a
process that is suspended between rounds does not block the others. Each piece of work is a short transaction,
so live commits run in between.

A process that is suspended within a round keeps the lock. Then the others still checkpoint the WAL once it is
twice its intended length, but no process runs retention or compaction until the suspended one resumes or
ends; `tidegate doctor` shows it. One that is suspended inside a transaction, or inside SQLite's own
checkpoint, prevents checkpoints too, and the WAL grows.

A topic whose upkeep fails (because of a damaged batch, for example) is reported and does not hold up the
others.
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
from tidegate.log.sqlite.old_writers import ALIVE_MS, record_alive, sweep_writers
from tidegate.log.sqlite.retention import retain, sweep_deleted
from tidegate.log.sqlite.upkeep_lock import Report, Trouble, UpkeepLock

WAL_SOFT_BYTES = 4 << 20
WAL_HARD_BYTES = 8 << 20
WAL_ALONE_BYTES = 16 << 20
"""From this length on, a process checkpoints the WAL without the lock: the lock's holder does not do it."""
PASSES = 4
BLOCK_SECONDS = 0.05
TICK_SECONDS = 0.05
ROUND_SECONDS = 5.0
LOCK_SECONDS = 10.0
VACUUM_PAGES = 64
SPARE_PAGES, SPARE_SHARE = 16, 1 / 16
_WHOLE_LOG = frozenset(["closed", "commit-unknown", "forked", "log-busy"])
"""Errors that concern the whole log: the next topic would fail with them too."""
_log = logging.getLogger("tidegate.log")


class Upkeep:
    """Runs upkeep for one open log: regularly in a thread, or at once when called."""

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
        self._block_at = WAL_HARD_BYTES
        self._due = 0.0

    def start(self) -> None:
        """Start the thread if it is not running; a log that is only read needs none."""
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
        """Return the report of the last or current round of any process."""
        return self._lock.read()

    def run(self, topic: str | None = None) -> None:
        """Do what is due now; with a topic, compact that topic up to its end whether due or not. If parts
        fail, do the others, then raise the first error."""
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
                    f"another process has been running the upkeep of this log for {LOCK_SECONDS:.0f} s",
                    "that process also compacts what is due; or try again later",
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
        """Tick often: frequent small checkpoints delay live commits less than rare large ones."""
        self._due = time.monotonic() + ROUND_SECONDS
        recorded = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            try:
                if time.monotonic() >= recorded + ALIVE_MS / 1000:
                    recorded = time.monotonic()
                    record_alive(self._database, self._clock.now())
                self._tick()
            except (LogError, apsw.Error, OSError):
                pass  # the caller's next write fails with it again; nobody else is there to report it to
            except Exception:  # noqa: BLE001 - without this thread the WAL would grow without bound
                _log.exception("the upkeep of the log failed; it will be tried again")

    def _tick(self) -> None:
        if not self._working.acquire(blocking=False):
            return
        try:
            to_move = self._wal_bytes_to_move()
            due = time.monotonic() >= self._due
            if to_move < WAL_SOFT_BYTES and not due:
                return
            if not self._lock.take():
                if to_move >= WAL_ALONE_BYTES:
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
        """Run a round unless another process has just finished one."""
        age = time.time() - self._lock.read().ended
        self._due = time.monotonic() + ROUND_SECONDS
        if 0 <= age < ROUND_SECONDS:
            self._due -= age
            return
        self._reported_round()

    def _reported_round(self) -> list[LogError]:
        """Run a round over all topics, write its report, and return the errors of the parts that failed."""
        reported = {(trouble.what, trouble.code) for trouble in self._lock.read().troubles}
        report = Report(os.getpid(), time.time())
        self._lock.write(report)
        troubles: list[tuple[str, LogError]] = []
        try:
            self._round(None, troubles)
        finally:
            found = tuple(Trouble(what, error.code, error.message) for what, error in troubles)
            self._lock.write(Report(report.pid, report.began, time.time(), found))
        for what, error in troubles:
            if (what, error.code) not in reported:
                _log.error("upkeep of the log: %s: %s", what, error)
        return [error for _, error in troubles]

    def _round(self, topic: str | None, troubles: list[tuple[str, LogError]]) -> None:
        reach("log.upkeep.1")
        now = self._clock.now()
        if topic is None:
            with _collecting("deleted topics", troubles):
                sweep_deleted(self._database)
            with _collecting("dead writers", troubles):
                sweep_writers(self._database, now)
        for name in [topic] if topic is not None else self._names():
            if self._stop.is_set():
                return
            with _collecting(f"topic {name!r}", troubles, deleted_meanwhile=topic is None):
                self._maintain(name, now, troubles, force=topic is not None)
        with _collecting("free pages", troubles):
            self._shrink()
        self._checkpoint()

    def _names(self) -> list[str]:
        """Return the topic names without checking the rows: a damaged one is reported when it is
        processed."""
        with self._database.read() as connection:
            rows = fetch(connection, "SELECT name FROM topic WHERE name IS NOT NULL ORDER BY id")
        return [str(name) for (name,) in rows]

    def _maintain(self, name: str, now: int, troubles: list[tuple[str, LogError]], *, force: bool) -> None:
        entry = self._catalog.find(name)
        for partition in entry.partitions:
            what = f"topic {name!r}, partition {partition.number}"
            with _collecting(what, troubles, deleted_meanwhile=not force):
                retain(self._database, entry.info, partition, now)
                if entry.info.compacts and (force or is_due(self._database, entry.info, partition, now)):
                    compact(self._database, entry.info, partition.id, now, self._checkpoint_between)
                else:
                    merge_small(self._database, partition)
                    self._checkpoint_between()

    def _checkpoint_between(self) -> bool:
        """Keep the WAL short between two pieces of work. Return whether to continue: False after a close."""
        self._checkpoint()
        return not self._stop.is_set()

    def _shrink(self) -> None:
        """Return free pages to the file system, some at a time. A few stay: they are soon reused."""
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

        Passive mode waits for nobody. But commits continue during it, and the WAL starts over only when all
        of it was moved; so another, shorter pass moves what was committed during the previous one. If that
        does not help and the WAL gets far too long, writers are blocked briefly.
        """
        connection = self._checkpointing()
        if connection is None:
            return
        pages = moved = 0
        for _ in range(PASSES):
            pages, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if pages * PAGE_SIZE < WAL_SOFT_BYTES or pages == moved:
                return
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if pages * PAGE_SIZE >= self._block_at:
            self._block_writers(connection, pages)

    def _wal_bytes_to_move(self) -> int:
        """Return the WAL's length in bytes if part of it is not in the file yet, else 0."""
        connection = self._checkpointing()
        if connection is None:
            return 0
        pages, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        return 0 if pages == moved else pages * PAGE_SIZE

    def _checkpointing(self) -> apsw.Connection | None:
        """Return the connection for checkpoints, or None while there is no WAL."""
        if self._wal is None or not self._wal.exists():
            return None
        if self._connection is None:
            self._connection = self._database.connect(busy_seconds=BLOCK_SECONDS)
            self._connection.pragma("data_version")  # reads the WAL: before, SQLite does not know its length
        return self._connection

    def _block_writers(self, connection: apsw.Connection, pages: int) -> None:
        """Run a checkpoint that blocks writers. If a reader prevents it, do not wait: the next attempt comes
        when the WAL is twice as long."""
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            self._block_at = WAL_HARD_BYTES
        except apsw.BusyError:
            self._block_at = 2 * pages * PAGE_SIZE


@contextmanager
def _collecting(
    what: str, troubles: list[tuple[str, LogError]], *, deleted_meanwhile: bool = False
) -> Iterator[None]:
    """Collect the error of one part of a round, so that the others continue. An error that concerns the
    whole log ends the round."""
    try:
        with translated_errors():
            yield
    except LogError as error:
        if error.code in _WHOLE_LOG:
            raise
        if not (deleted_meanwhile and error.code == "no-such-topic"):
            troubles.append((what, error))
