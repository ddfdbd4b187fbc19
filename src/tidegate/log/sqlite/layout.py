"""The tables of the file, and the checksums of their rows.

    synced     the number of synced transactions. No other transaction writes its page: see wal_check.py
    meta       the id of the log; when each writer was last alive, and the highest epoch that was deleted
    topic      name, uid, config; a deleted topic has no name until its spans are removed
    partition  start and next offset, how far it was compacted
    span       which batch holds which offsets. The spans of a partition cover [start, next) without a
               gap, also after compaction, so a lost row is detected as a gap and records never just vanish
    batch      the bytes. A batch is stored once and linked by a span
    pending    batches of open transactions: no offsets yet
    writer     the epoch of each writer id

Every row that a read depends on is sealed: its last column is a checksum over the others (the checksum of a
batch is in its span). SQLite has no checksums for its pages, and a flipped bit in a number must cause an
error, not a different number.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from tidegate.errors import LogError

APPLICATION_ID = 0x54494445
FORMAT = 1
PAGE_SIZE = 8192
SYNCED_PAGE = 3  # the first table's: page 1 holds the schema, page 2 what auto_vacuum needs

DDL = f"""
PRAGMA page_size = {PAGE_SIZE};
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE synced (commits INTEGER NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE topic (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, uid TEXT NOT NULL, partitions INTEGER NOT NULL,
  config TEXT NOT NULL, seal INTEGER NOT NULL);
CREATE TABLE partition (
  id INTEGER PRIMARY KEY AUTOINCREMENT, topic INTEGER NOT NULL, number INTEGER NOT NULL,
  start INTEGER NOT NULL, next INTEGER NOT NULL, clean INTEGER NOT NULL, seal INTEGER NOT NULL,
  UNIQUE (topic, number));
CREATE TABLE span (
  partition INTEGER NOT NULL, last INTEGER NOT NULL, base INTEGER NOT NULL, count INTEGER NOT NULL,
  kind INTEGER NOT NULL, raw INTEGER NOT NULL, size INTEGER NOT NULL, max_timestamp INTEGER NOT NULL,
  tombstones INTEGER NOT NULL, horizon INTEGER NOT NULL, batch INTEGER NOT NULL, checksum INTEGER NOT NULL,
  seal INTEGER NOT NULL, PRIMARY KEY (partition, last)) WITHOUT ROWID;
CREATE TABLE batch (id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
CREATE TABLE pending (
  batch INTEGER PRIMARY KEY, writer TEXT NOT NULL, epoch INTEGER NOT NULL);
CREATE INDEX pending_of_writer ON pending (writer);
CREATE TABLE writer (id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
"""


def corrupt(what: str) -> LogError:
    """Return the error for bytes that are not what was written."""
    return LogError(
        "corrupt",
        f"the log file is damaged: {what}",
        "stop all writers and restore the file from a copy; nothing was changed",
    )


def seal(*values: Any) -> int:
    """Return a checksum over the values of a row."""
    return zlib.crc32(repr(values).encode())


def check(what: str, row: tuple[Any, ...]) -> None:
    """Raise LogError `corrupt` unless the row's last column is the checksum of the others."""
    if row[-1] != seal(*row[:-1]):
        raise corrupt(f"{what} does not match its checksum")


_SPAN = struct.Struct("<12q")


@dataclass(frozen=True, slots=True)
class Span:
    """Which batch holds the offsets from `base` to `last`; with `count` 0 no record of them is left.

    `horizon` is the time from which its tombstones may be removed: 0 until a compaction has processed them.
    """

    partition: int
    last: int
    base: int
    count: int
    kind: int
    raw: int
    size: int
    max_timestamp: int
    tombstones: int
    horizon: int
    batch: int
    checksum: int

    def row(self) -> tuple[int, ...]:
        """Return the values as stored, the seal last."""
        values = (
            self.partition,
            self.last,
            self.base,
            self.count,
            self.kind,
            self.raw,
            self.size,
            self.max_timestamp,
            self.tombstones,
            self.horizon,
            self.batch,
            self.checksum,
        )
        return (*values, zlib.crc32(_SPAN.pack(*values)))


SPAN_COLUMNS = (
    "partition, last, base, count, kind, raw, size, max_timestamp, tombstones, horizon, batch, checksum, seal"
)
INSERT_SPAN = f"INSERT INTO span ({SPAN_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - constants


def to_span(row: tuple[Any, ...]) -> Span:
    """Convert a stored row to a span, after checking its seal."""
    try:
        sealed = zlib.crc32(_SPAN.pack(*row[:12])) == row[12]
    except struct.error:
        sealed = False
    if not sealed:
        raise corrupt("a span does not match its checksum")
    return Span(*row[:12])


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition as stored."""

    id: int
    topic: int
    number: int
    start: int
    next: int
    clean: int

    def sealed(self) -> int:
        return seal(self.id, self.topic, self.number, self.start, self.next, self.clean)


PARTITION_COLUMNS = "id, topic, number, start, next, clean, seal"


def to_partition(row: tuple[Any, ...]) -> PartitionRow:
    """Convert a stored row to a partition, after checking its seal."""
    check("a partition", row)
    return PartitionRow(*row[:6])
