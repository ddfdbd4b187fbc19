"""How far each partition was read, in the same database as the rows, and compared and set with them.

A partition is read from its start: at first; if its topic was recreated; if its position lies outside of the
topic; or if the sink was away so long that deletions may be gone from the topic (half of
`delete.retention.ms` since it was last current). Each such read has a number. At its end, rows of the
partition that have another number are swept: the topic does not have them any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa

NAME = "tidegate_positions"


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """Of one partition."""

    topic: str
    uid: str
    partition: int
    next_offset: int
    current_at: int
    """When it had last read everything, in milliseconds since 1970; for a read from the start, its start."""
    read: int
    """The number of the read from the start that it belongs to."""
    sweep_at: int | None = None
    """The offset at which this read has seen every row, and the others are swept; None after that."""
    keeps_newer: bool = False
    """Whether rows of earlier reads are newer than older records of the same key: offsets are comparable."""


class Changed(Exception):  # noqa: N818 - no failure: another sink was faster
    """Another sink has set the position."""


class Positions:
    """The positions of one table of rows."""

    def __init__(self, target: str, metadata: sa.MetaData) -> None:
        self._target = target
        self.table = positions_table(metadata)

    def all(self, connection: sa.Connection) -> dict[int, SinkPosition]:
        """Return the positions by partition."""
        own = self.table.c.target == self._target
        return {
            row.partition: SinkPosition(
                row.topic,
                row.topic_uid,
                row.partition,
                row.next_offset,
                row.current_at,
                row.read_number,
                row.sweep_at,
                row.keeps_newer,
            )
            for row in connection.execute(sa.select(self.table).where(own))
        }

    def begin(self, connection: sa.Connection, new: SinkPosition, known: SinkPosition | None) -> None:
        """Begin to read a partition from its start. Raises Changed if another sink did so."""
        if known is not None:
            self.set(connection, known, new)
            return
        try:
            row = {"target": self._target, "partition": new.partition, **_columns(new)}
            connection.execute(sa.insert(self.table), row)
        except sa.exc.IntegrityError:
            raise Changed from None

    def set(self, connection: sa.Connection, expected: SinkPosition, new: SinkPosition) -> None:
        """Set the position if it is the expected one; else raise Changed."""
        at = self.table.c
        update = (
            sa.update(self.table)
            .where(
                at.target == self._target,
                at.partition == expected.partition,
                at.topic_uid == expected.uid,
                at.read_number == expected.read,
                at.next_offset == expected.next_offset,
            )
            .values(_columns(new))
        )
        if connection.execute(update).rowcount != 1:
            raise Changed

    def forget(self, connection: sa.Connection) -> None:
        """Delete the positions: their table is new."""
        connection.execute(sa.delete(self.table).where(self.table.c.target == self._target))


def advanced(position: SinkPosition, next_offset: int, current_at: int | None) -> SinkPosition:
    """Return the position after more records; `current_at` if they reach the end of the partition."""
    found = replace(position, next_offset=next_offset, current_at=current_at or position.current_at)
    return found if sweeps(found) is None else replace(found, sweep_at=None, keeps_newer=False)


def sweeps(position: SinkPosition) -> int | None:
    """Return the number of the read whose end is reached, so that other rows are swept."""
    ends = position.sweep_at is not None and position.next_offset >= position.sweep_at
    return position.read if ends else None


def positions_table(metadata: sa.MetaData) -> sa.Table:
    """Return the table; the same one for all that share the metadata."""
    name = NAME if metadata.schema is None else f"{metadata.schema}.{NAME}"
    if name in metadata.tables:
        return metadata.tables[name]
    return sa.Table(
        NAME,
        metadata,
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("topic_uid", sa.Text, nullable=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("current_at", sa.BigInteger, nullable=False),
        sa.Column("read_number", sa.Integer, nullable=False),
        sa.Column("sweep_at", sa.BigInteger),
        sa.Column("keeps_newer", sa.Boolean, nullable=False),
    )


def _columns(position: SinkPosition) -> dict[str, object]:
    return {
        "topic": position.topic,
        "topic_uid": position.uid,
        "next_offset": position.next_offset,
        "current_at": position.current_at,
        "read_number": position.read,
        "sweep_at": position.sweep_at,
        "keeps_newer": position.keeps_newer,
    }
