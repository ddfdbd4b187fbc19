"""The file of a table topic after compaction, against its live rows.

Many small commits update the same keys, with compaction and merging at work beside them as always; then
the topic is compacted to its end and the log closed. The live rows encoded in one go are the least that
the file can be: they are compressed, and nothing else is with them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

from benchmarks.log_records import batch_of
from benchmarks.report import Report
from tidegate.log.reads import read_between
from tidegate.log.records import APPEND_SCHEMA, READ_SCHEMA
from tidegate.log.sqlite.append import PIECE_BYTES
from tidegate.log.sqlite.codec import encode_sparse
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

TARGET = 1.3
COMMIT_RECORDS = 250
PARTITION = TopicPartition("customers", 0)


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    """2M updates of 100k keys."""
    updates = 400_000 if quick else 2_000_000
    path = folder / "compacted.db"
    report.progress(f"size: {updates:,} updates in commits of {COMMIT_RECORDS}")
    log = SqliteLog(path)
    log.create(TopicSpec(PARTITION.topic, config={"cleanup.policy": "compact"}))
    _update(log, updates)
    report.progress("size: compaction")
    log.compact(PARTITION.topic)
    live = _live(log)
    log.close()
    size = path.stat().st_size
    least = _least(live)
    report.measured("size: live rows", live.num_rows, "rows")
    report.measured("size: live rows, uncompressed", live.nbytes / 2**20, "MiB")
    report.measured("size: live rows encoded in one go", least / 2**20, "MiB")
    report.measured("size: file after compaction", size / 2**20, "MiB")
    report.at_most("size: file to live rows encoded", size / least, "x", TARGET)


def _update(log: SqliteLog, updates: int) -> None:
    """Commits of neighbours out of a pool in which each key is some times."""
    rng = random.Random(2)
    pool = batch_of(300_000, seed=2)
    writer = log.writer("benchmark")
    for _ in range(updates // COMMIT_RECORDS):
        writer.append(PARTITION, pool.slice(rng.randrange(pool.num_rows - COMMIT_RECORDS), COMMIT_RECORDS))
        writer.commit()
    writer.close()


def _live(log: SqliteLog) -> pa.RecordBatch:
    """All rows of the topic, as they would be appended; after compaction each key is there once."""
    end = log.ends([PARTITION])[PARTITION]
    read = pa.concat_batches(list(read_between(log, PARTITION, 0, end)))
    keys = read.column(2).to_pylist()
    assert len(set(keys)) == len(keys), "compaction left two records of a key"
    return pa.RecordBatch.from_arrays(read.columns[1:], schema=APPEND_SCHEMA)


def _least(live: pa.RecordBatch) -> int:
    """The live rows alone, compressed as compaction does it, in pieces of about a MiB."""
    offsets = pa.arange(0, live.num_rows)
    numbered = pa.RecordBatch.from_arrays([offsets, *live.columns], schema=READ_SCHEMA)
    rows = live.num_rows * PIECE_BYTES // live.nbytes
    starts = range(0, live.num_rows, rows)
    return sum(encode_sparse(numbered.slice(start, rows), start).size for start in starts)
