"""Merge small batches: otherwise a topic that is written every 100 ms would be read as slowly."""

from __future__ import annotations

import apsw
import pyarrow as pa

from tidegate.log.sqlite.append import load_partition
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.layout import SPAN_COLUMNS, PartitionRow, Span, to_span
from tidegate.log.sqlite.reader import decode_span, read_spans
from tidegate.log.sqlite.rewrite import SMALL_BYTES, TARGET_BYTES, replace_run

WORTH_MERGING = 32
LOOK_BACK = 4096


def merge_small(database: Database, partition: PartitionRow) -> None:
    """Merge runs of small adjacent spans among the newest ones; older ones were merged before."""
    for run in _runs(_newest(database, partition)):
        with database.read() as connection:
            current = load_partition(connection, partition.id)
            if run[0].base < current.start:
                continue
            pages = _load(connection, current, run)
        replace_run(database, run, pa.concat_batches(pages), run[0].horizon)


def _newest(database: Database, partition: PartitionRow) -> list[Span]:
    with database.read() as connection:
        rows = connection.execute(
            f"SELECT {SPAN_COLUMNS} FROM span WHERE partition = ? ORDER BY last DESC LIMIT ?",  # noqa: S608
            (partition.id, LOOK_BACK),
        ).fetchall()
    return [to_span(row) for row in reversed(rows)]


def _runs(spans: list[Span]) -> list[list[Span]]:
    runs: list[list[Span]] = [[]]
    size = 0
    for span in spans:
        fits = span.raw < SMALL_BYTES and size + span.raw <= TARGET_BYTES and _same_horizon(runs[-1], span)
        if not fits:
            runs.append([])
            size = 0
        if span.raw < SMALL_BYTES:
            runs[-1].append(span)
            size += span.raw
    return [run for run in runs if len(run) >= WORTH_MERGING]


def _same_horizon(run: list[Span], span: Span) -> bool:
    """Whether the span has the run's horizon: tombstones of different horizons must not be merged, nor those
    that compaction has not processed with others."""
    return not run or run[-1].horizon == span.horizon


def _load(connection: apsw.Connection, partition: PartitionRow, run: list[Span]) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    offset = run[0].base
    while offset <= run[-1].last:
        for span, data in read_spans(connection, partition, offset, TARGET_BYTES):
            if span.last <= run[-1].last:
                batches.append(decode_span(span, data))
            offset = span.last + 1
    return batches
