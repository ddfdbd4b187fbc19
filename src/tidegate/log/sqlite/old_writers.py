"""Writers that are gone, and what they left behind.

A process that is killed leaves the row of its writer, and the pending batches of a transaction that nobody
will end. Whether a writer is gone shows by when it was last seen: opening it counts, and every process notes
once a minute in the file that its open writers live (a row of `meta` for each).

A sweep: 1 note the writers of this process; 2 fence each writer that has pending batches and was not seen
for an hour, by raising its epoch; 3 delete the pending batches of epochs that are over, some at a time:
nobody can commit them any more; 4 delete the rows of writers not seen for a week that have nothing pending.
An epoch is never given twice: the highest one that was deleted is kept (`meta`, the floor), and a writer
whose row is gone is fenced.

A process that was stopped for an hour in the middle of a large transaction, or for a week, is fenced when it
goes on, and opens its writer again as after any fence.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

import apsw

from tidegate.log.sqlite.database import Database, fetch
from tidegate.log.sqlite.fencing import FLOOR, SEEN, number_in_meta, put_meta, raise_epoch, sweep

PENDING_MS = 3600 * 1000
GONE_MS = 7 * 24 * 3600 * 1000
NOTE_MS = 60 * 1000
ROWS_AT_ONCE = 256

_OVER = (
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
    """One of them. The writer holds it, and it goes with the writer."""

    def __init__(self, writer_id: str) -> None:
        self.id = writer_id
        self.is_open = True


LIVE = LiveWriters()


def note_live(database: Database, now: int) -> None:
    """Step 1. A crash may undo it: then they are gone anyway."""
    mine = LIVE.ids(database.id)
    with database.read() as connection:
        known = {one: number_in_meta(connection, SEEN + one) for one in mine}
    late = [one for one, seen in known.items() if abs(now - (seen or 0)) >= NOTE_MS]
    if late:
        with database.write(sync=False) as connection:
            for one in late:
                put_meta(connection, SEEN + one, now)


def sweep_writers(database: Database, now: int) -> None:
    """The steps above."""
    note_live(database, now)
    live = LIVE.ids(database.id)
    with database.read() as connection:
        holding = {writer for (writer,) in fetch(connection, "SELECT DISTINCT writer FROM pending")} - live
    for writer in sorted(holding):
        with database.write() as connection:
            if _unseen(connection, writer, now) >= PENDING_MS:
                raise_epoch(connection, writer)
    with database.read() as connection:
        over = [writer for (writer,) in fetch(connection, _OVER)]
    for writer in over:
        sweep(database, writer)
    while _delete_rows(database, now, live):
        pass


def _unseen(connection: apsw.Connection, writer: str, now: int) -> int:
    """For how long. A file of an older tidegate does not say: it is counted from now on."""
    seen = number_in_meta(connection, SEEN + writer)
    if seen is None or seen > now:
        put_meta(connection, SEEN + writer, now)
        return 0
    return now - seen


def _delete_rows(database: Database, now: int, live: set[str]) -> bool:
    """Step 4, for some of them. Whether there may be more."""
    query = (
        "SELECT w.id, w.epoch FROM writer w LEFT JOIN meta m ON m.key = ? || w.id"
        " WHERE (m.key IS NULL OR CAST(m.value AS INTEGER) <= ? OR CAST(m.value AS INTEGER) > ?)"
        " AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.writer = w.id) LIMIT ?"
    )
    values = (SEEN, now - GONE_MS, now, ROWS_AT_ONCE)
    with database.read() as connection:
        if not fetch(connection, query, values):
            return False
    with database.write() as connection:
        rows = fetch(connection, query, values)
        gone = [
            (writer, epoch)
            for writer, epoch in rows
            if writer not in live and _unseen(connection, writer, now) >= GONE_MS
        ]
        if gone:
            floor = max(number_in_meta(connection, FLOOR) or 0, *(epoch for _, epoch in gone))
            put_meta(connection, FLOOR, floor)
            ids = [(writer,) for writer, _ in gone]
            connection.executemany("DELETE FROM writer WHERE id = ?", ids)
            connection.executemany("DELETE FROM meta WHERE key = ? || ?", [(SEEN, *one) for one in ids])
    return len(rows) == ROWS_AT_ONCE
