"""Append and bounded read, records per second, against a plain table with one row per record.

Both sides do the same job: an Arrow batch goes in, durable when the call returns, and Arrow batches come
out. That is what the log's callers have and need. The table alone, fed with Python tuples that lie ready
and read no further than into tuples, is shown beside it without a target: it is the upper end of what
rows in SQLite can do from Python.

The target is for transactions of 10,000 records, about what a busy task commits every 100 ms. Smaller ones
are shown too: the fewer the records, the more both sides just wait for the same sync. Each file is written
to before it is timed, so that its WAL has its length: to make a file longer costs more than to write over
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.log_plain import PlainTable, to_batch, to_records
from benchmarks.log_records import batches_of
from benchmarks.report import Report, median
from tidegate.log.reads import read_between
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

TARGET = 5.0
BUSY = 10_000
SIZES = (BUSY, 1000)
PARTITION = TopicPartition("orders", 0)


@dataclass(slots=True)
class Seconds:
    """Times of all repetitions of one size, by what was done."""

    append: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    plain_append: list[float] = field(default_factory=list)
    plain_read: list[float] = field(default_factory=list)
    bare_append: list[float] = field(default_factory=list)
    bare_read: list[float] = field(default_factory=list)


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    """Each transaction size by itself; repetitions of the compared things in turns."""
    repetitions = 3 if quick else 7
    for size in SIZES:
        count = min(200, (100_000 if quick else 400_000) // size)
        batches = batches_of(count, size)
        seconds = Seconds()
        for number in range(repetitions):
            report.progress(f"throughput: {size:,} records per transaction, {number + 1} of {repetitions}")
            _log(folder / f"log-{size}-{number}.db", batches, seconds)
            _table(folder / f"plain-{size}-{number}.db", batches, seconds)
        _tell(report, size, count * size, seconds)


def _tell(report: Report, size: int, records: int, seconds: Seconds) -> None:
    for what, ours, plain, bare in (
        ("append", seconds.append, seconds.plain_append, seconds.bare_append),
        ("read", seconds.read, seconds.plain_read, seconds.bare_read),
    ):
        title = f"{what}, {size:,} per transaction"
        report.measured(f"{title}: log", records / median(ours), "records/s")
        report.measured(f"{title}: plain table", records / median(plain), "records/s")
        report.measured(f"{title}: plain table, tuples only", records / median(bare), "records/s")
        if size == BUSY or what == "read":
            report.at_least(f"{title}: log to plain table", _ratios(plain, ours), "x", TARGET)
        else:
            report.measured(f"{title}: log to plain table", median(_ratios(plain, ours)), "x")
        report.measured(f"{title}: log to tuples only", median(_ratios(bare, ours)), "x")


def _ratios(theirs: Sequence[float], ours: Sequence[float]) -> list[float]:
    """The ratios of neighbours in time, which share the noise of the machine."""
    return [their / our for their, our in zip(theirs, ours, strict=True)]


def _log(path: Path, batches: list[pa.RecordBatch], seconds: Seconds) -> None:
    log = SqliteLog(path)
    log.create(TopicSpec(PARTITION.topic))
    writer = log.writer("benchmark")

    def append() -> None:
        for batch in batches:
            writer.append(PARTITION, batch)
            writer.commit()

    def read() -> int:
        return sum(batch.num_rows for batch in read_between(log, PARTITION, start, end))

    append()
    start = log.ends([PARTITION])[PARTITION]
    seconds.append.append(_timed(append))
    end = log.ends([PARTITION])[PARTITION]
    seconds.read.append(_timed(lambda: _check(read(), end - start)))
    writer.close()
    log.close()


def _table(path: Path, batches: list[pa.RecordBatch], seconds: Seconds) -> None:
    """Partition 0 is the warm-up, 1 comes from Arrow, 2 from tuples that lie ready."""
    table = PlainTable(path)
    size = batches[0].num_rows
    end = size * len(batches)
    ready = [to_records(batch, 2, number * size) for number, batch in enumerate(batches)]

    def append(partition: int) -> None:
        for number, batch in enumerate(batches):
            table.append(to_records(batch, partition, number * size))

    def append_ready() -> None:
        for records in ready:
            table.append(records)

    def read() -> int:
        return sum(to_batch(page).num_rows for page in table.read(1, 0, end))

    def read_bare() -> int:
        return sum(len(page) for page in table.read(2, 0, end))

    append(0)
    seconds.plain_append.append(_timed(lambda: append(1)))
    seconds.bare_append.append(_timed(append_ready))
    seconds.plain_read.append(_timed(lambda: _check(read(), end)))
    seconds.bare_read.append(_timed(lambda: _check(read_bare(), end)))
    table.close()


def _check(found: int, expected: int) -> None:
    assert found == expected, f"{found} records came back of {expected}"


def _timed(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
