"""The database of a sink: its URL, its connections, and its errors without what must not be shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, make_url

from tidegate.errors import ConfigError, StateError, first_line

BUSY_SECONDS = 30
CONNECT_SECONDS = 10
DDL_LOCK = 0x7469_6465
"""The key of PostgreSQL's advisory lock under which tables are created."""
_HINT = "write sqlite:///file.db or postgresql+psycopg://user:password@host/database"


class Database:
    """One database, SQLite or PostgreSQL. Connections are opened when they are needed."""

    def __init__(self, url: str, folder: Path) -> None:
        """`folder` is where a relative path starts. Raises ConfigError `bad-setting`."""
        parsed = _parsed(url, folder)
        self.shown = parsed.render_as_string(hide_password=True)
        """The URL for messages."""
        self._password = str(parsed.password or "")
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.path = Path(parsed.database or "") if self.is_sqlite else None
        self._engine = _sqlite(parsed) if self.is_sqlite else _postgresql(parsed)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Open a transaction: committed at the end of the block, rolled back if that raises."""
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def schema_change(self) -> Iterator[sa.Connection]:
        """Open a transaction that creates tables: one at a time, whoever runs it."""
        with self.transaction() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(DDL_LOCK)))
            yield connection

    def version(self) -> str:
        """Connect, and return the name and version of the database."""
        with self._translated(), self._engine.connect() as connection:
            numbers = connection.dialect.server_version_info or ()
        name = "SQLite" if self.is_sqlite else "PostgreSQL"
        return f"{name} {'.'.join(map(str, numbers))}"

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise self._error(error) from None

    def _error(self, error: exc.SQLAlchemyError) -> StateError:
        """Return the error without statements and rows, which a message of SQLAlchemy contains."""
        cause = getattr(error, "orig", None) or error
        why = first_line(cause)
        if self._password:
            why = why.replace(self._password, "***")
        lost = isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError)
        retryable = lost or bool(getattr(error, "connection_invalidated", False))
        return StateError(
            "database-failed",
            f"{self.shown}: {why}",
            "check that the database runs and that its user may create and write tables",
            retryable=retryable,
        )


def _parsed(url: str, folder: Path) -> URL:
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise ConfigError("bad-setting", "the url of a sink is not the URL of a database", _HINT) from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite":
        if parsed.database in (None, "", ":memory:") or str(parsed.database).startswith("file:"):
            raise ConfigError("bad-setting", "the url of a sink names no file", _HINT)
        return parsed.set(database=str(folder / str(parsed.database)))
    if parsed.drivername != "postgresql+psycopg":
        message = f"the url of a sink begins with {parsed.drivername}://"
        raise ConfigError("bad-setting", message, _HINT)
    return parsed


def _sqlite(url: URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _no_implicit_begin(connection: Any, _: Any) -> None:
        """Python's driver would begin a transaction only at the first write, and none for DDL."""
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        """A transaction that reads first and then writes fails at once if another one wrote meanwhile."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _postgresql(url: URL) -> sa.Engine:
    given = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "tidegate-sink",
        "options": f"-c lock_timeout={BUSY_SECONDS}s",
    }
    own = {name: value for name, value in given.items() if name not in url.query}
    try:
        return sa.create_engine(url, connect_args=own, pool_size=1, max_overflow=1, pool_pre_ping=True)
    except ImportError as error:
        message = f"PostgreSQL's client is not installed: {error}"
        raise ConfigError("no-database-client", message, "pip install tidegate[postgres]") from None
