"""The transactional writer of the embedded log.

Offsets are assigned at commit, inside one short SQLite transaction, so they stay dense and an open
transaction hides no committed record. `flush` predicts them: it reads the next offsets of the partitions, and
commit checks that they have not changed. Holding the file's lock from flush to commit would be simpler, but
then one suspended process would block all others. Flushed partitions (changelogs) have one owner, so the
check fails only for a zombie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

import pyarrow as pa

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.checks import check_batch
from tidegate.log.faultpoints import reach
from tidegate.log.sqlite.append import link, load_partitions, pieces_of, store_batch
from tidegate.log.sqlite.catalog import Catalog
from tidegate.log.sqlite.codec import NO_DATA, Encoded
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.fencing import check_epoch, sweep, take_over
from tidegate.log.sqlite.layout import PartitionRow
from tidegate.log.sqlite.old_writers import LIVE, LiveWriter
from tidegate.types import Offset, TopicPartition

SPILL_BYTES = 4 << 20


class SqliteWriterStatus(Enum):
    """open ── append ──> open ── commit, abort ──> open;  any error in commit or spill, close ──>
    unusable."""

    OPEN = "open"
    UNUSABLE = "unusable"


class SqliteWriter:
    """Writes one transaction after the other under one id.

    Commit: 1 encode what is buffered, with no lock held; 2 store what exceeds 4 MiB in the pending table, in
    pieces, invisible to readers; 3 begin the short transaction; 4 check the epoch; 5 check the offsets that
    flush returned; 6 store and link the batches and advance the partitions; 7 commit, synced; 8 clear the
    buffers.
    """

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        clock: Clock,
        writer_id: str,
        spill_bytes: int = SPILL_BYTES,
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._clock = clock
        self._id = writer_id
        self._spill_bytes = spill_bytes
        self._status = SqliteWriterStatus.OPEN
        self._buffers: dict[TopicPartition, list[pa.RecordBatch]] = {}
        self._ids: dict[TopicPartition, int] = {}
        self._counts: dict[TopicPartition, int] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._bytes = 0
        self._spilled: dict[TopicPartition, list[tuple[int, Encoded]]] = {}
        self._flushed: dict[TopicPartition, int] = {}
        self._epoch = take_over(database, writer_id, clock.now())
        self._live = LiveWriter(writer_id)
        LIVE.add(database.id, self._live)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._check_open()
        info = self._catalog.cached(partition).info
        size = check_batch(info, partition.partition, batch, self._clock.now())
        if batch.num_rows == 0:
            return
        self._ids.setdefault(partition, self._catalog.partition_id(partition))
        self._buffers.setdefault(partition, []).append(batch)
        self._counts[partition] = self._counts.get(partition, 0) + batch.num_rows
        self._sizes[partition] = self._sizes.get(partition, 0) + size
        self._bytes += size
        if self._bytes > self._spill_bytes:
            try:
                self._spill()
            except BaseException:
                self._make_unusable()
                raise

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        self._check_open()
        ids = {one: self._ids.get(one) or self._catalog.partition_id(one) for one in partitions}
        with self._catalog.cached_ids(ids), self._database.read() as connection:
            check_epoch(connection, self._id, self._epoch)
            rows = load_partitions(connection, ids.values())
        bases = {partition: rows[key].next for partition, key in ids.items()}
        for partition, base in bases.items():
            if self._flushed.get(partition, base) != base:
                raise _moved(partition)
        self._ids |= ids
        self._flushed |= bases
        return {partition: Offset(base + self._counts.get(partition, 0)) for partition, base in bases.items()}

    def commit(self) -> dict[TopicPartition, Offset]:
        self._check_open()
        try:
            first = self._commit()
            reach("log.commit.8")
        except BaseException:
            self._make_unusable()
            raise
        self._forget()
        return first

    def _commit(self) -> dict[TopicPartition, Offset]:
        """Steps 1 to 7. Returns the first offset of what was appended to each partition."""
        reach("log.commit.1")
        if not self._ids:
            return {}
        encoded = {one: pieces_of(batches, self._sizes[one]) for one, batches in self._buffers.items()}
        reach("log.commit.3")
        with self._catalog.cached_ids(self._ids), self._database.write() as connection:
            reach("log.commit.4")
            check_epoch(connection, self._id, self._epoch)
            reach("log.commit.5")
            loaded = load_partitions(connection, self._ids.values())
            rows = {partition: loaded[key] for partition, key in self._ids.items()}
            for partition, base in self._flushed.items():
                if rows[partition].next != base:
                    raise _moved(partition)
            stored: dict[PartitionRow, list[tuple[int, Encoded]]] = {}
            for partition in sorted(self._counts):
                reach("log.commit.6")
                fresh = [(store_batch(connection, piece), piece) for piece in encoded.get(partition, [])]
                stored[rows[partition]] = self._spilled.get(partition, []) + fresh
            link(connection, stored)
            if self._spilled:
                connection.execute("DELETE FROM pending WHERE writer = ?", (self._id,))
            reach("log.commit.7")
        return {partition: Offset(rows[partition].next) for partition in self._counts}

    def abort(self) -> None:
        self._check_open()
        self._drop()

    def close(self) -> None:
        if self._status is SqliteWriterStatus.OPEN:
            self._drop()
            self._status = SqliteWriterStatus.UNUSABLE
        self._live.is_open = False

    def _spill(self) -> None:
        """Step 2: store the buffered pieces as pending, each in its own transaction, so that other writers
        get their turn. Unsynced: the sync of the commit covers the earlier bytes too. But most of them are
        synced to disk here, where nobody waits for it."""
        for partition, batches in self._buffers.items():
            for piece in pieces_of(batches, self._sizes[partition]):
                reach("log.commit.2")
                with self._database.write(sync=False) as connection:
                    check_epoch(connection, self._id, self._epoch)
                    batch_id = store_batch(connection, piece)
                    connection.execute(
                        "INSERT INTO pending VALUES (?, ?, ?)", (batch_id, self._id, self._epoch)
                    )
                self._spilled.setdefault(partition, []).append((batch_id, replace(piece, data=NO_DATA)))
        self._database.sync_wal()
        self._buffers, self._sizes = {}, {}
        self._bytes = 0

    def _make_unusable(self) -> None:
        """Make the writer unusable: part of the transaction may be stored and part not."""
        self._status = SqliteWriterStatus.UNUSABLE
        self._drop()
        self._live.is_open = False

    def _drop(self) -> None:
        """Delete the spilled batches. If that fails, the next holder of the id deletes them."""
        spilled = bool(self._spilled)
        self._forget()
        if spilled:
            try:
                sweep(self._database, self._id, self._epoch)
            except LogError:
                self._status = SqliteWriterStatus.UNUSABLE

    def _forget(self) -> None:
        self._buffers = {}
        self._sizes = {}
        self._ids = {}
        self._counts = {}
        self._bytes = 0
        self._spilled = {}
        self._flushed = {}

    def _check_open(self) -> None:
        if self._status is SqliteWriterStatus.UNUSABLE:
            raise LogError("writer-spent", f"writer {self._id!r} failed or was closed", "open a new writer")


def _moved(partition: TopicPartition) -> LogError:
    return LogError(
        "offsets-moved",
        f"another writer appended to {partition} after flush returned its next offset",
        "open a new writer and read the positions; only one writer may append to a flushed partition",
        retryable=True,
    )
