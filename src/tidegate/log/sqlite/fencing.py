"""Who holds a writer id: the highest epoch, checked in the same transaction that writes."""

from __future__ import annotations

import apsw

from tidegate.errors import ConfigError, FencedError, LogError
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.layout import check, seal
from tidegate.types import Epoch

SWEEP_BATCHES = 16


def take_over(database: Database, writer_id: str) -> Epoch:
    """Become the holder of the id: older holders can commit nothing any more, and what they left pending is
    swept."""
    if not writer_id or len(writer_id) > 1000:
        raise ConfigError("illegal-name", "a writer id has 1 to 1000 characters", "shorten the app id")
    with database.write() as connection:
        epoch = Epoch(_current(connection, writer_id) + 1)
        connection.execute(
            "INSERT INTO writer VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, seal = excluded.seal",
            (writer_id, epoch, seal(writer_id, epoch)),
        )
    sweep(database, writer_id, epoch - 1)
    return epoch


def check_epoch(connection: apsw.Connection, writer_id: str, epoch: int) -> None:
    """Raise FencedError unless this epoch still holds the id."""
    current = _current(connection, writer_id)
    if current != epoch:
        raise FencedError(writer_id, epoch, current)


def sweep(database: Database, writer_id: str, up_to_epoch: int) -> None:
    """Delete what this id left pending, some batches at a time."""
    mine = "SELECT batch FROM pending WHERE writer = ? AND epoch <= ? LIMIT ?"
    while True:
        with database.write(sync=False) as connection:
            rows = connection.execute(mine, (writer_id, up_to_epoch, SWEEP_BATCHES)).fetchall()
            connection.executemany("DELETE FROM batch WHERE id = ?", rows)
            connection.executemany("DELETE FROM pending WHERE batch = ?", rows)
        if len(rows) < SWEEP_BATCHES:
            return


def _current(connection: apsw.Connection, writer_id: str) -> int:
    row = connection.execute("SELECT id, epoch, seal FROM writer WHERE id = ?", (writer_id,)).fetchone()
    if row is None:
        return 0
    check(f"writer {writer_id!r}", row)
    if not isinstance(row[1], int):
        raise LogError("corrupt", "a writer's epoch is no number", "restore the file from a copy")
    return row[1]
