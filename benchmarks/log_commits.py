"""Commit latency of many writers, alone and beside a bulk load.

Each writer is a process that commits ten records over three partitions every 100 ms. They start at random
moments within the 100 ms and keep their pace, as the slots of an app do. What is timed is `commit()`:
encoding, waiting for the file's lock, writing and syncing. Scenarios run in turns, each on its own file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import apsw

from benchmarks.crew import Crew, Job, Turn
from benchmarks.log_records import batch_of, batches_of
from benchmarks.report import Report, median, percentile
from tidegate.log.records import columns_to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

WRITERS = 16
SPACING = 0.1
WARM_UP = 10
RECORDS = (4, 3, 3)
BULK_BATCH, BULK_BATCHES = 10_000, 20
LONG_WAL_BYTES = 48 << 20

Bulk = Literal["none", "same file", "other file"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who writes at the same time, and how long in each round."""

    name: str
    writers: int
    bulk: Bulk
    seconds: float


def measure(report: Report, folder: Path, *, quick: bool) -> None:
    """All scenarios in turns; the ratios are to the one writer alone."""
    scale = 0.2 if quick else 1.0
    one = Scenario("one writer", 1, "none", 30 * scale)
    many = Scenario(f"{WRITERS} writers", WRITERS, "none", 6 * scale)
    staged = Scenario(f"{WRITERS} writers, bulk load into another file", WRITERS, "other file", 6 * scale)
    shared = Scenario(f"{WRITERS} writers, bulk load into the same file", WRITERS, "same file", 6 * scale)
    rounds = 2 if quick else 5
    latencies: dict[Scenario, list[list[float]]] = {one: [], many: [], staged: [], shared: []}
    loaded = dict.fromkeys(latencies, 0)
    with Crew(WRITERS + 1) as crew:
        for number in range(rounds):
            for scenario, of_rounds in latencies.items():
                report.progress(f"commits: {scenario.name}, round {number + 1} of {rounds}")
                of_rounds.append(play(crew, folder, scenario, number, loaded))
    base = [percentile(found, 99) for found in latencies[one]]
    for scenario, each in latencies.items():
        title = f"commit, {scenario.name}"
        found = [latency for one_round in each for latency in one_round]
        report.measured(f"{title}: samples", len(found), "commits")
        report.measured(f"{title}: p50", percentile(found, 50) * 1000, "ms")
        report.measured(f"{title}: p99", percentile(found, 99) * 1000, "ms")
        ratios = [percentile(round_, 99) / alone for round_, alone in zip(each, base, strict=True)]
        if scenario is many:
            report.below(f"{title}: p99 to that of one", ratios, "x", 3)
        elif scenario is staged:
            report.below(f"{title}: p99 to that of one", ratios, "x", 5)
        elif scenario is shared:
            report.measured(f"{title}: p99 to that of one", median(ratios), "x")
        if scenario.bulk != "none":
            seconds = scenario.seconds * rounds
            report.measured(f"{title}: bulk load", loaded[scenario] / seconds, "records/s")


def play(
    crew: Crew, folder: Path, scenario: Scenario, number: int, loaded: dict[Scenario, int]
) -> list[float]:
    """One round of a scenario: the seconds of each commit."""
    path = folder / f"{scenario.bulk.replace(' ', '-')}-{scenario.writers}-{number}.db"
    rng = random.Random(number)
    jobs: list[Job] = [
        (write, (path, writer, rng.random() * SPACING, scenario.seconds))
        for writer in range(scenario.writers)
    ]
    if scenario.bulk != "none":
        jobs.append((load, (path, scenario.bulk, scenario.seconds)))
    with prepared(path):
        *answers, last = crew.play(jobs)
    if scenario.bulk != "none":
        loaded[scenario] += last
    else:
        answers.append(last)
    return [latency for answer in answers for latency in answer]


@contextmanager
def prepared(path: Path) -> Iterator[None]:
    """A log as it is after some minutes: its WAL has had its full length once, so that commits write over it
    and need not make it longer, which costs the file system more. The last to close a log deletes the
    WAL, so a connection stays open."""
    log = SqliteLog(path, upkeep=False)
    log.create(TopicSpec("live", WRITERS * len(RECORDS)))
    other = SqliteLog(_other(path), upkeep=False)
    kept = [_lengthened(target) for target in (log, other)]
    log.close()
    other.close()
    yield
    for connection in kept:
        connection.close()


def _other(path: Path) -> Path:
    return path.with_suffix(f".other{path.suffix}")


def _lengthened(log: SqliteLog) -> apsw.Connection:
    log.create(TopicSpec("bulk"))
    writer = log.writer("warm-up")
    now = time.time_ns() // 1_000_000
    filler = columns_to_batch([now] * 4, [b"filler"] * 4, [random.Random(3).randbytes(1_000_000)] * 4)
    for _ in range(LONG_WAL_BYTES // filler.nbytes):
        writer.append(TopicPartition("bulk", 0), filler)
    writer.commit()
    writer.close()
    connection = apsw.Connection(str(log.path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    return connection


def write(turn: Turn, path: Path, writer_number: int, phase: float, seconds: float) -> list[float]:
    """A writer process: the seconds that each of its commits took."""
    log = SqliteLog(path)
    writer = log.writer(f"writer-{writer_number}")
    first = writer_number * len(RECORDS)
    parts = [TopicPartition("live", first + part) for part in range(len(RECORDS))]
    pool = [[batch_of(size, seed=seed * 10 + size) for size in RECORDS] for seed in range(32)]

    def commit(number: int) -> float:
        for partition, batch in zip(parts, pool[number % len(pool)], strict=True):
            writer.append(partition, batch)
        begun = time.perf_counter()
        writer.commit()
        return time.perf_counter() - begun

    for number in range(WARM_UP):
        commit(number)
    start = turn.wait() + phase
    latencies: list[float] = []
    for number in range(int(seconds / SPACING)):
        due = start + number * SPACING
        time.sleep(max(0.0, due - time.monotonic()))
        latencies.append(commit(number))
    turn.finish()
    writer.close()
    log.close()
    return latencies


def load(turn: Turn, path: Path, bulk: Bulk, seconds: float) -> int:
    """The bulk load: large transactions one after the other. How many records it brought in."""
    target = SqliteLog(path if bulk == "same file" else _other(path))
    writer = target.writer("bulk")
    batches = batches_of(BULK_BATCHES, BULK_BATCH)
    end = turn.wait() + seconds
    records = 0
    while time.monotonic() < end:
        for batch in batches:
            writer.append(TopicPartition("bulk", 0), batch)
            records += batch.num_rows
        writer.commit()
    turn.finish()
    writer.close()
    target.close()
    return records
