"""Giving offsets to encoded batches, inside a write transaction that someone else opened."""

from __future__ import annotations

from dataclasses import replace

import apsw
import pyarrow as pa

from tidegate.errors import LogError
from tidegate.log.sqlite.codec import Encoded, encode
from tidegate.log.sqlite.layout import INSERT_SPAN, PARTITION_COLUMNS, PartitionRow, Span, to_partition

PIECE_BYTES = 1 << 20


def pieces_of(batches: list[pa.RecordBatch]) -> list[Encoded]:
    """Batches of one partition, joined and cut into pieces of about a MiB, encoded."""
    joined = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if joined.num_rows == 0:
        return []
    rows = max(1, joined.num_rows * PIECE_BYTES // max(joined.nbytes, 1))
    return [encode(joined.slice(first, rows)) for first in range(0, joined.num_rows, rows)]


def store_batch(connection: apsw.Connection, encoded: Encoded) -> int:
    """Store the bytes; nobody sees them until a span links them."""
    connection.execute("INSERT INTO batch (data) VALUES (?)", (encoded.data,))
    return connection.last_insert_rowid()


def load_partition(connection: apsw.Connection, partition_id: int) -> PartitionRow:
    """The partition now; a topic that was deleted meanwhile is told by name."""
    row = connection.execute(
        f"SELECT {PARTITION_COLUMNS} FROM partition p WHERE id = ?"  # noqa: S608 - constants
        " AND EXISTS (SELECT 1 FROM topic t WHERE t.id = p.topic AND t.name IS NOT NULL)",
        (partition_id,),
    ).fetchone()
    if row is None:
        raise LogError("no-such-topic", "the topic was deleted", "create it again, then open a new writer")
    return to_partition(row)


def save_partition(connection: apsw.Connection, partition: PartitionRow) -> None:
    """Store what changed of it."""
    connection.execute(
        "UPDATE partition SET start = ?, next = ?, clean = ?, seal = ? WHERE id = ?",
        (partition.start, partition.next, partition.clean, partition.sealed(), partition.id),
    )


def link(
    connection: apsw.Connection, partition: PartitionRow, stored: list[tuple[int, Encoded]]
) -> PartitionRow:
    """Give the stored batches the next offsets of the partition, in order."""
    for batch_id, encoded in stored:
        span = Span(
            partition=partition.id,
            last=partition.next + encoded.count - 1,
            base=partition.next,
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
        connection.execute(INSERT_SPAN, span.row())
        partition = replace(partition, next=span.last + 1)
    save_partition(connection, partition)
    return partition
