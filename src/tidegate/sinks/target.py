"""A table of the database that holds the rows of one topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tidegate.errors import ConfigError, SerdeError, StateError
from tidegate.sinks.layout import LONGEST_NAME, OWN, ColumnSpec, Kind, Layout, bad_row, checked
from tidegate.sinks.positions import NAME, Positions, SinkPosition

PARTITION, OFFSET, READ = f"{OWN}partition", f"{OWN}offset", f"{OWN}read"
"""Of each row: the partition and offset of its record, and the number of the read (`positions.py`)."""
Newest = Mapping[bytes, tuple[bytes | None, int]]
"""The newest value of each key, with its offset."""
Skipped = Callable[[SerdeError], None]
_UNREADABLE = (ValueError, TypeError, OverflowError, AttributeError, msgspec.MsgspecError)
_TYPES: dict[Kind, Any] = {
    "int": sa.BigInteger(),
    "float": sa.Double(),
    "str": sa.Text(),
    "bool": sa.Boolean(),
    "bytes": sa.LargeBinary(),
    "datetime": sa.DateTime(timezone=True),
    "json": sa.Text(),
}


class Target:
    """One topic and its table."""

    def __init__(
        self, topic: str, name: str, layout: Layout, metadata: sa.MetaData, *, is_sqlite: bool
    ) -> None:
        self.topic = topic
        self.name = name
        self.positions = Positions(name, metadata)
        self._layout = layout
        self._sqlite = is_sqlite
        self._key_names = [f"{OWN}key_{number}" for number in range(len(layout.keys))]
        self.table = sa.Table(
            name,
            metadata,
            *(
                sa.Column(one.name, _TYPES[one.kind], primary_key=True, autoincrement=False)
                for one in layout.keys
            ),
            *(sa.Column(one.name, _TYPES[one.kind], nullable=not one.required) for one in layout.values),
            sa.Column(PARTITION, sa.Integer, nullable=False),
            sa.Column(OFFSET, sa.BigInteger, nullable=False),
            sa.Column(READ, sa.Integer, nullable=False),
        )
        self._upserts = {newer: self._upsert(newer_only=newer) for newer in (False, True)}
        self._deletes = {newer: self._delete(newer_only=newer) for newer in (False, True)}

    def create(self, connection: sa.Connection) -> bool:
        """Create the table; returns False if it is there already. Raises StateError `other-columns` if that
        is another table."""
        found = sa.inspect(connection)
        if not found.has_table(self.name, schema=self.table.schema):
            self.table.create(connection)
            self.positions.forget(connection)
            return True
        there = {column["name"] for column in found.get_columns(self.name, schema=self.table.schema)}
        missing = [column.name for column in self.table.columns if column.name not in there]
        if missing:
            raise StateError(
                "other-columns",
                f"table {self.name!r} has no column {', '.join(missing)}",
                "drop the table: it is created and filled again; or choose another prefix or schema",
            )
        return False

    def write(
        self, connection: sa.Connection, position: SinkPosition, rows: Newest, skipped: Skipped | None
    ) -> tuple[int, int]:
        """Upsert and delete rows; returns how many records of each kind. A record that cannot be a row raises
        SerdeError, or is passed to `skipped` and its row deleted."""
        put: list[dict[str, Any]] = []
        deleted: list[dict[str, Any]] = []
        layout = self._layout
        for raw, (value, offset) in rows.items():
            at = position.topic, position.partition, offset
            key = self._columns(layout.keys, layout.key, raw, at, skipped)
            if key is None:
                continue
            row = None if value is None else self._columns(layout.values, layout.value, value, at, skipped)
            if row is None:
                deleted.append(dict(zip(self._key_names, key.values(), strict=True)) | {OFFSET: offset})
            else:
                own = {PARTITION: position.partition, OFFSET: offset, READ: position.read}
                put.append(key | row | own)
        if put:
            connection.execute(self._upserts[position.keeps_newer], put)
        if deleted:
            connection.execute(self._deletes[position.keeps_newer], deleted)
        return len(put), len(deleted)

    def sweep(self, connection: sa.Connection, partition: int, read: int) -> int:
        """Delete the rows of a partition that a read from its start has not seen."""
        at = self.table.c
        swept = sa.delete(self.table).where(at[PARTITION] == partition, at[READ] != read)
        return connection.execute(swept).rowcount

    def newest_read(self, connection: sa.Connection, partition: int) -> int:
        """Return the highest number of a read among the rows of a partition; 0 if there are none."""
        newest = sa.select(sa.func.max(self.table.c[READ])).where(self.table.c[PARTITION] == partition)
        return connection.execute(newest).scalar() or 0

    def _columns(
        self,
        columns: Iterable[ColumnSpec],
        read: Callable[[bytes], dict[str, Any]],
        data: bytes,
        at: tuple[str, int, int],
        skipped: Skipped | None,
    ) -> dict[str, Any] | None:
        """Return the columns of a key or value; None for a record that is skipped."""
        try:
            values = read(data)
            return {one.name: checked(one.kind, values[one.name], nul=self._sqlite) for one in columns}
        except (*_UNREADABLE, SerdeError) as error:
            found = bad_row(error).at(*at)
            if skipped is None:
                raise found from error
            skipped(found)
            return None

    def _upsert(self, *, newer_only: bool) -> Any:
        insert: Any = (sqlite if self._sqlite else postgresql).insert(self.table)
        keys = [one.name for one in self._layout.keys]
        changed = {
            column.name: insert.excluded[column.name]
            for column in self.table.columns
            if column.name not in keys
        }
        newer = self.table.c[OFFSET] <= insert.excluded[OFFSET] if newer_only else None
        return insert.on_conflict_do_update(index_elements=keys, set_=changed, where=newer)

    def _delete(self, *, newer_only: bool) -> sa.Delete:
        names = zip(self._layout.keys, self._key_names, strict=True)
        found = sa.delete(self.table).where(
            *(self.table.c[column.name] == sa.bindparam(name) for column, name in names)
        )
        return found.where(self.table.c[OFFSET] <= sa.bindparam(OFFSET)) if newer_only else found


def table_name(prefix: str, name: str) -> str:
    """Return the name of the table for a model or topic. Raises ConfigError `bad-table`."""
    found = prefix + re.sub(r"[^A-Za-z0-9_]", "_", name)
    if len(found) > LONGEST_NAME or found.lower().startswith(("sqlite_", NAME)):
        message = f"the table of {name!r} would be called {found[:80]!r}, which databases do not allow"
        raise ConfigError("bad-table", message, f"at most {LONGEST_NAME} characters; set or change prefix")
    return found
