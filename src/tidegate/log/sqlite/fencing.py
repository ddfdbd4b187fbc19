"""Fencing: the highest epoch holds a writer id, checked in the same transaction that writes."""

from __future__ import annotations

import apsw

from tidegate.errors import ConfigError, FencedError
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.layout import check, corrupt, seal
from tidegate.types import Epoch

SWEEP_BATCHES = 16
LAST_ALIVE = "seen/"
"""Prefix of a writer's id in `meta`: when it was last known to be open, in milliseconds since 1970."""
FLOOR = "writer-floor"
"""Key in `meta`: the highest epoch of any deleted writer row."""


def take_over(database: Database, writer_id: str, now: int) -> Epoch:
    """Become the holder of the id: older holders can no longer commit, and their pending batches are
    deleted."""
    if not writer_id or len(writer_id) > 1000:
        raise ConfigError("illegal-name", "a writer id has 1 to 1000 characters", "shorten the app id")
    with database.write() as connection:
        epoch = raise_epoch(connection, writer_id)
        put_meta(connection, LAST_ALIVE + writer_id, now)
    sweep(database, writer_id)
    return epoch


def raise_epoch(connection: apsw.Connection, writer_id: str) -> Epoch:
    """Fence the current holder of the id. The new epoch was never used before, even if the row was deleted
    in the meantime."""
    before = _current(connection, writer_id)
    if before is None:
        before = number_in_meta(connection, FLOOR) or 0
    epoch = Epoch(before + 1)
    connection.execute(
        "INSERT INTO writer VALUES (?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, seal = excluded.seal",
        (writer_id, epoch, seal(writer_id, epoch)),
    )
    return epoch


def check_epoch(connection: apsw.Connection, writer_id: str, epoch: int) -> None:
    """Raise FencedError unless this epoch still holds the id."""
    current = _current(connection, writer_id)
    if current != epoch:
        raise FencedError(writer_id, epoch, current)


def sweep(database: Database, writer_id: str, up_to_epoch: int | None = None) -> None:
    """Delete the pending batches of this id, some at a time: those of past epochs, or up to a given one."""
    query = "SELECT batch FROM pending WHERE writer = ? AND epoch <= ? LIMIT ?"
    while True:
        with database.write(sync=False) as connection:
            limit = up_to_epoch
            if limit is None:
                current = _current(connection, writer_id)
                limit = 2**63 - 1 if current is None else current - 1
            rows = connection.execute(query, (writer_id, limit, SWEEP_BATCHES)).fetchall()
            connection.executemany("DELETE FROM batch WHERE id = ?", rows)
            connection.executemany("DELETE FROM pending WHERE batch = ?", rows)
        if len(rows) < SWEEP_BATCHES:
            return


def number_in_meta(connection: apsw.Connection, key: str) -> int | None:
    """Return a number of the table `meta`, after checking its seal."""
    row = connection.execute("SELECT key, value, seal FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    check(f"{key!r} in the table meta", row)
    return int(row[1])


def put_meta(connection: apsw.Connection, key: str, number: int) -> None:
    """Store a number in the table `meta`."""
    value = str(number)
    connection.execute(
        "INSERT INTO meta VALUES (?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value, seal = excluded.seal",
        (key, value, seal(key, value)),
    )


def _current(connection: apsw.Connection, writer_id: str) -> int | None:
    row = connection.execute("SELECT id, epoch, seal FROM writer WHERE id = ?", (writer_id,)).fetchone()
    if row is None:
        return None
    check(f"writer {writer_id!r}", row)
    if not isinstance(row[1], int):
        raise corrupt("a writer's epoch is not a number")
    return row[1]
