"""Delete old records: by time, by size, by purge, and those of deleted topics. Always in pieces."""

from __future__ import annotations

from dataclasses import replace

import apsw

from tidegate.log.sqlite.append import load_partition, save_partition
from tidegate.log.sqlite.database import Database, fetch
from tidegate.log.sqlite.layout import SPAN_COLUMNS, PartitionRow, Span, to_span
from tidegate.log.topic import TopicInfo

PIECE_SPANS = 64


def retain(database: Database, info: TopicInfo, partition: PartitionRow, now: int) -> None:
    """Delete whole spans from the start that exceed the topic's retention time or size."""
    if "delete" not in info.policy:
        return
    age, size = info.setting("retention.ms"), info.setting("retention.bytes")
    if age < 0 and size < 0:
        return
    with database.read() as connection:
        query = f"SELECT {SPAN_COLUMNS} FROM span WHERE partition = ? ORDER BY last"  # noqa: S608 - constants
        spans = [to_span(row) for row in fetch(connection, query, (partition.id,))]
    total = sum(span.size for span in spans)
    cut = partition.start
    for span in spans:
        too_old = age >= 0 and span.max_timestamp < now - age
        too_much = size >= 0 and total - span.size >= size
        if not (too_old or too_much):
            break
        total -= span.size
        cut = span.last + 1
    if cut > partition.start:
        purge(database, partition.id, cut)


def purge(database: Database, partition_id: int, before: int) -> None:
    """Hide the records below `before` at once, then delete their bytes in pieces."""
    with database.write() as connection:
        row = load_partition(connection, partition_id)
        start = min(max(row.start, before), row.next)
        save_partition(connection, replace(row, start=start, clean=max(row.clean, start)))
    while _delete_piece(database, partition_id, start - 1):
        pass


def sweep_deleted(database: Database) -> None:
    """Delete the spans and rows of deleted topics."""
    query = "SELECT p.id, p.topic FROM partition p JOIN topic t ON t.id = p.topic WHERE t.name IS NULL"
    with database.read() as connection:
        rows = fetch(connection, query)
    for partition_id, _ in rows:
        while _delete_piece(database, partition_id, 2**63 - 1):
            pass
    for topic_id in {topic for _, topic in rows}:
        with database.write() as connection:
            connection.execute("DELETE FROM partition WHERE topic = ?", (topic_id,))
            connection.execute("DELETE FROM topic WHERE id = ?", (topic_id,))


def _delete_piece(database: Database, partition_id: int, up_to: int) -> bool:
    """Delete some spans that end at or below an offset. Return whether there were any."""
    with database.write(sync=False) as connection:
        spans = _oldest(connection, partition_id, up_to)
        connection.executemany("DELETE FROM batch WHERE id = ?", [(span.batch,) for span in spans])
        connection.executemany(
            "DELETE FROM span WHERE partition = ? AND last = ?", [(partition_id, span.last) for span in spans]
        )
    return bool(spans)


def _oldest(connection: apsw.Connection, partition_id: int, up_to: int) -> list[Span]:
    query = f"SELECT {SPAN_COLUMNS} FROM span WHERE partition = ? AND last <= ? ORDER BY last LIMIT ?"  # noqa: S608
    return [to_span(row) for row in fetch(connection, query, (partition_id, up_to, PIECE_SPANS))]
