"""A store of one's own without a changelog: a table of a database that every host can reach.

    stock = (
        stores.key_value("stock", int)
        .backed_by(lambda: SqliteTable(Path("/mnt/shared/stock.db")))
        .without_changelog(on_gap="keep")
    )

SQLite stands in here for a server such as PostgreSQL; nothing below needs more than SQL and transactions.

The database outlives the task on any host, so a changelog would only keep the rows a second time. The price
is in the name `on_gap`: a crash between the commit in the log and `apply` leaves the table without the last
changes. That is counted (`keep`), or the task's rows are dropped (`empty`, the default).

Two hosts can hold the same task for a moment: one of them is a zombie, cut off and not yet aware of it. Its
writes must not land on those of the new owner. Each `apply` therefore brings a token that only rises; the
table keeps the last one, in the same transaction as the rows, and refuses a lower one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tidegate.stores import Bound, RawRow, StoreContext, Token

TABLES = """
CREATE TABLE IF NOT EXISTS stock (
  partition INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (partition, key));
CREATE TABLE IF NOT EXISTS token (
  partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL, position INTEGER NOT NULL);
"""


class StaleWriteError(Exception):
    """Somebody newer has written: this task is a zombie and must stop."""


class SqliteTable:
    """The rows of all tasks in one table, told apart by the partition. For keys without suffix."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._partition = -1
        self._connection: sqlite3.Connection | None = None

    def open(self, context: StoreContext) -> None:
        if context.suffix:
            raise ValueError("windows and sessions have keys with a suffix, which this table cannot sort")
        self._partition = context.partition
        self._connection = sqlite3.connect(self._file, timeout=10, isolation_level=None)
        self._connection.executescript(TABLES)

    def get(self, key: bytes) -> bytes | None:
        row = self._database.execute(
            "SELECT value FROM stock WHERE partition = ? AND key = ?", (self._partition, key)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        query = "SELECT key, value FROM stock WHERE partition = ? AND key >= ? AND (? IS NULL OR key < ?)"
        query += " ORDER BY key DESC" if reverse else " ORDER BY key"
        first = b"" if lower is None else lower[0]
        behind = None if upper is None else upper[0]
        rows = self._database.execute(query, (self._partition, first, behind, behind)).fetchall()
        yield from rows

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:
        """Take the rows and the token together, or nothing. Without rows it tells who owns the task now."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            self._take(token)
            for key, value in rows:
                if value is None:
                    database.execute(
                        "DELETE FROM stock WHERE partition = ? AND key = ?", (self._partition, key)
                    )
                else:
                    database.execute("REPLACE INTO stock VALUES (?, ?, ?)", (self._partition, key, value))
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")

    def clear(self) -> None:
        self._database.execute("DELETE FROM stock WHERE partition = ?", (self._partition,))

    def flush(self) -> None:
        """Nothing to do: a committed transaction survives a crash."""

    def close(self) -> None:
        """May come without `open`, after a failure."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, token: Token) -> None:
        last = self._database.execute(
            "SELECT epoch, attempt, position FROM token WHERE partition = ?", (self._partition,)
        ).fetchone()
        if last is not None and tuple(token) < last:
            raise StaleWriteError(f"{tuple(token)} comes after {last}")
        self._database.execute("REPLACE INTO token VALUES (?, ?, ?, ?)", (self._partition, *token))

    @property
    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the store is not open")
        return self._connection
