"""Memory while a long topic is read from its start: it must not grow with what was read."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.crew import Crew, Turn
from benchmarks.log_records import batches_of
from benchmarks.report import Report
from tidegate.log.reads import read_between
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

TARGET = 1.1
BATCH, BATCHES = 10_000, 20
PARTITION = TopicPartition("long", 0)


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    """5M records, read by a process that does nothing else."""
    records = 1_000_000 if quick else 5_000_000
    path = folder / "long.db"
    report.progress(f"memory: writing {records:,} records")
    log = SqliteLog(path)
    log.create(TopicSpec(PARTITION.topic))
    writer = log.writer("benchmark")
    batches = batches_of(BATCHES, BATCH)
    for _ in range(records // (BATCH * BATCHES)):
        for batch in batches:
            writer.append(PARTITION, batch)
        writer.commit()
    writer.close()
    log.close()
    report.progress("memory: reading")
    with Crew(1) as crew:
        [(first, second)] = crew.play([(read, (path, records))])
    report.measured(f"memory: RSS, first half of {records:,} records", first / 2**20, "MiB")
    report.measured(f"memory: RSS, second half of {records:,} records", second / 2**20, "MiB")
    report.at_most("memory: second half to first", second / first, "x", TARGET)


def read(turn: Turn, path: Path, records: int) -> tuple[int, int]:
    """The most memory seen in the first and in the second half of a read."""
    log = SqliteLog(path)
    turn.wait()
    peaks, seen = [0, 0], 0
    for batch in read_between(log, PARTITION, 0, records):
        half = int(seen >= records // 2)
        peaks[half] = max(peaks[half], resident())
        seen += batch.num_rows
    assert seen == records
    turn.finish()
    log.close()
    return peaks[0], peaks[1]


def resident() -> int:
    """Bytes of this process in memory, as Linux reports them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
