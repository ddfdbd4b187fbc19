"""Clean up after writers whose process has ended.

A process that is killed leaves the row of its writer, and the pending batches of a transaction that nobody
will commit. A writer counts as dead when it was last alive long ago: opening it counts as a sign of life, and
every process records once a minute in the file that its open writers are alive (a row of `meta` for each).

A sweep: 1 record that the writers of this process are alive; 2 fence each writer that has pending batches and
gave no sign of life for an hour, by raising its epoch; 3 delete the pending batches of past epochs, some at a
time: nobody can commit them any more; 4 delete the rows of writers without a sign of life for a week that
have nothing pending. An epoch is never used twice: the highest deleted one is kept (`meta`, the floor), and a
writer whose row was deleted is fenced.

A process that was suspended for an hour in the middle of a large transaction, or for a week, is fenced when
it resumes, and opens its writer again as after any fence.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

import apsw

from tidegate.log.sqlite.database import Database, fetch
from tidegate.log.sqlite.fencing import FLOOR, LAST_ALIVE, number_in_meta, put_meta, raise_epoch, sweep

PENDING_MS = 3600 * 1000
DEAD_MS = 7 * 24 * 3600 * 1000
ALIVE_MS = 60 * 1000
ROWS_AT_ONCE = 256

_PAST_EPOCHS = (
    "SELECT DISTINCT p.writer FROM pending p LEFT JOIN writer w ON w.id = p.writer"
    " WHERE w.id IS NULL OR p.epoch < w.epoch"
)


class LiveWriters:
    """The open writers of this process, by the id of their log: several logs may be open on one file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, WeakSet[LiveWriter]] = {}

    def add(self, log_id: str, writer: LiveWriter) -> None:
        with self._lock:
            self._of.setdefault(log_id, WeakSet()).add(writer)

    def ids(self, log_id: str) -> set[str]:
        with self._lock:
            found = {writer.id for writer in self._of.get(log_id, ()) if writer.is_open}
            if not found:
                self._of.pop(log_id, None)
            return found


class LiveWriter:
    """One open writer. The writer holds the only strong reference, so both are garbage-collected together."""

    def __init__(self, writer_id: str) -> None:
        self.id = writer_id
        self.is_open = True


LIVE = LiveWriters()


def record_alive(database: Database, now: int) -> None:
    """Run step 1. Unsynced: a crash that undoes it also ends these writers."""
    writers = LIVE.ids(database.id)
    with database.read() as connection:
        recorded = {writer: number_in_meta(connection, LAST_ALIVE + writer) for writer in writers}
    due = [writer for writer, last in recorded.items() if abs(now - (last or 0)) >= ALIVE_MS]
    if due:
        with database.write(sync=False) as connection:
            for writer in due:
                put_meta(connection, LAST_ALIVE + writer, now)


def sweep_writers(database: Database, now: int) -> None:
    """Run steps 1 to 4."""
    record_alive(database, now)
    live = LIVE.ids(database.id)
    with database.read() as connection:
        holding = {writer for (writer,) in fetch(connection, "SELECT DISTINCT writer FROM pending")} - live
    for writer in sorted(holding):
        with database.write() as connection:
            if _silent_ms(connection, writer, now) >= PENDING_MS:
                raise_epoch(connection, writer)
    with database.read() as connection:
        outdated = [writer for (writer,) in fetch(connection, _PAST_EPOCHS)]
    for writer in outdated:
        sweep(database, writer)
    while _delete_rows(database, now, live):
        pass


def _silent_ms(connection: apsw.Connection, writer: str, now: int) -> int:
    """Return the milliseconds since the writer's last sign of life. If none is recorded (a file of an older
    tidegate), record now and return 0."""
    last = number_in_meta(connection, LAST_ALIVE + writer)
    if last is None or last > now:
        put_meta(connection, LAST_ALIVE + writer, now)
        return 0
    return now - last


def _delete_rows(database: Database, now: int, live: set[str]) -> bool:
    """Run step 4 for up to ROWS_AT_ONCE writers. Return whether there may be more."""
    query = (
        "SELECT w.id, w.epoch FROM writer w LEFT JOIN meta m ON m.key = ? || w.id"
        " WHERE (m.key IS NULL OR CAST(m.value AS INTEGER) <= ? OR CAST(m.value AS INTEGER) > ?)"
        " AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.writer = w.id) LIMIT ?"
    )
    values = (LAST_ALIVE, now - DEAD_MS, now, ROWS_AT_ONCE)
    with database.read() as connection:
        if not fetch(connection, query, values):
            return False
    with database.write() as connection:
        rows = fetch(connection, query, values)
        dead = [
            (writer, epoch)
            for writer, epoch in rows
            if writer not in live and _silent_ms(connection, writer, now) >= DEAD_MS
        ]
        if dead:
            floor = max(number_in_meta(connection, FLOOR) or 0, *(epoch for _, epoch in dead))
            put_meta(connection, FLOOR, floor)
            ids = [(writer,) for writer, _ in dead]
            connection.executemany("DELETE FROM writer WHERE id = ?", ids)
            connection.executemany("DELETE FROM meta WHERE key = ? || ?", [(LAST_ALIVE, *one) for one in ids])
    return len(rows) == ROWS_AT_ONCE
