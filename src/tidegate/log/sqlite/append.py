"""Store encoded batches and assign their offsets, inside a write transaction that the caller opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import apsw
import pyarrow as pa

from tidegate.errors import LogError
from tidegate.log.sqlite.codec import Encoded, encode
from tidegate.log.sqlite.layout import INSERT_SPAN, PARTITION_COLUMNS, PartitionRow, Span, to_partition

PIECE_BYTES = 1 << 20
_LOAD = (
    f"SELECT {PARTITION_COLUMNS} FROM partition p"  # noqa: S608 - constants
    " WHERE EXISTS (SELECT 1 FROM topic t WHERE t.id = p.topic AND t.name IS NOT NULL)"
)
_LOAD_ONE = f"{_LOAD} AND id = ?"
_LOAD_SEVERAL = f"{_LOAD} AND id IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
_SAVE = "UPDATE partition SET start = ?, next = ?, clean = ?, seal = ? WHERE id = ?"


def pieces_of(batches: list[pa.RecordBatch], size: int) -> list[Encoded]:
    """Encode the batches of one partition, `size` bytes in all, in pieces of about 1 MiB: small batches are
    joined, large ones are split."""
    if size <= PIECE_BYTES:
        joined = _joined(batches)
        return [encode(joined)] if joined.num_rows else []
    pieces: list[Encoded] = []
    for group in _groups(batches):
        joined = _joined(group)
        rows = max(1, -(-joined.num_rows // max(1, round(joined.nbytes / PIECE_BYTES))))
        pieces += [encode(joined.slice(first, rows)) for first in range(0, joined.num_rows, rows)]
    return pieces


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _groups(batches: list[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Split batches into groups of about a piece: a group of half a piece or more takes no batch with which
    it would exceed a whole one."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if size >= PIECE_BYTES // 2 and size + batch.nbytes > PIECE_BYTES:
            yield group
            group, size = [], 0
        group.append(batch)
        size += batch.nbytes
    yield group


def store_batch(connection: apsw.Connection, encoded: Encoded) -> int:
    """Store the bytes and return the batch's id; readers do not see it until a span links to it."""
    connection.execute("INSERT INTO batch (data) VALUES (?)", (encoded.data,))
    return connection.last_insert_rowid()


def load_partition(connection: apsw.Connection, partition_id: int) -> PartitionRow:
    """Load a partition's current row; raise LogError `no-such-topic` if its topic was deleted."""
    row = connection.execute(_LOAD_ONE, (partition_id,)).fetchone()
    if row is None:
        raise _deleted()
    return to_partition(row)


def load_partitions(connection: apsw.Connection, ids: Collection[int]) -> dict[int, PartitionRow]:
    """Load the current rows of several partitions with one query."""
    rows = connection.execute(_LOAD_SEVERAL, (f"[{','.join(map(str, ids))}]",)).fetchall()
    found = {partition.id: partition for partition in map(to_partition, rows)}
    if len(found) < len(set(ids)):
        raise _deleted()
    return found


def _deleted() -> LogError:
    return LogError("no-such-topic", "the topic was deleted", "create it again, then open a new writer")


def save_partition(connection: apsw.Connection, partition: PartitionRow) -> None:
    """Store the partition's changed columns."""
    connection.execute(_SAVE, _saved(partition))


def link(connection: apsw.Connection, stored: Mapping[PartitionRow, list[tuple[int, Encoded]]]) -> None:
    """Assign the next offsets of their partitions to the stored batches, in order."""
    spans: list[tuple[Any, ...]] = []
    moved: list[tuple[Any, ...]] = []
    for partition, batches in stored.items():
        base = partition.next
        for batch_id, encoded in batches:
            spans.append(_span(partition.id, base, batch_id, encoded).row())
            base += encoded.count
        moved.append(_saved(replace(partition, next=base)))
    connection.executemany(INSERT_SPAN, spans)
    connection.executemany(_SAVE, moved)


def _saved(partition: PartitionRow) -> tuple[Any, ...]:
    return partition.start, partition.next, partition.clean, partition.sealed(), partition.id


def _span(partition: int, base: int, batch_id: int, encoded: Encoded) -> Span:
    return Span(
        partition=partition,
        last=base + encoded.count - 1,
        base=base,
        count=encoded.count,
        kind=encoded.kind,
        raw=encoded.raw,
        size=encoded.size,
        max_timestamp=encoded.max_timestamp,
        tombstones=encoded.tombstones,
        horizon=0,
        batch=batch_id,
        checksum=encoded.checksum,
    )
