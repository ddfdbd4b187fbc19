"""`python -m benchmarks.growth [--parts keys,partitions,values,hot]`: where the cost of a record grows.

A count per key on one slot with the embedded log, no Spark; each case in a process of its own.

keys        10,000 to 10M keys, all of them in the store before, then uniformly random; whole batches, and
            record by record. The largest do not fit into the memtable (128 MiB)
partitions  1 to 64 partitions in one slot
values      100 bytes and 10 KB
hot         one key has 90 % of the records

For each: CPU time of the slot for a record, and that of the log's upkeep beside it, which compacts what was
written before; rate in the last fifth of the run to that in the first, peak memory, and bytes of state and
log on the disk.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from benchmarks.report import Report, run_parts
from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.log.partitioner import partition_for
from tidegate.log.records import columns_to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.slot.slot import Slot
from tidegate.types import TopicPartition

EVENTS = Topic("events", bytes)
COUNTS = TableTopic("counts", int)
BATCH = 10_000
COMMIT_SECONDS = 0.1
FIFTHS = 5
CASE = "case"
"""The first argument of the process that measures one case."""
FROM = 1_700_000_000_000
NOISE = random.Random(1).randbytes(1 << 20)
"""Values are cut out of it: they compress badly."""


class Case(msgspec.Struct, frozen=True):
    """What one process measures."""

    name: str
    keys: int
    records: int
    partitions: int = 1
    value_bytes: int = 100
    hot: float = 0.0
    """The share of the records that has one key."""
    batches: bool = True


class Found(msgspec.Struct, frozen=True):
    """What it found."""

    cpu_us: float
    upkeep_us: float
    """Of the other threads of the process."""
    per_second: float
    last_to_first: float
    peak_mib: float
    state_mib: float
    log_mib: float


class Spent(msgspec.Struct, frozen=True):
    """What processing some batches took, in seconds."""

    seconds: float
    cpu: float
    """Of the whole process."""
    own_cpu: float
    """Of the slot's thread."""


def counted() -> App:
    app = App("growth")
    app.stream(EVENTS).count("counts").to(COUNTS)
    return app


def measured(case: Case, folder: Path) -> Found:
    """Fill the store with all keys, then measure."""
    with closing(SqliteLog(folder / "log.db")) as log:
        for name, policy in ((EVENTS.name, "delete"), (COUNTS.name, "compact")):
            log.create(TopicSpec(name, case.partitions, {"cleanup.policy": policy}))
        run = prepare(counted().build(), log, SystemClock(), partitions=case.partitions, batches=case.batches)
        [slot] = run.slots(folder / "state", 1)
        while len(slot.tasks) < case.partitions:
            slot.step()
        with closing(slot):
            _processed(slot, log, case, _every_key(case))
            fifths = [_processed(slot, log, case, _random_keys(case, number)) for number in range(FIFTHS)]
    seconds = [fifth.seconds for fifth in fifths]
    return Found(
        cpu_us=sum(fifth.own_cpu for fifth in fifths) / case.records * 1e6,
        upkeep_us=sum(fifth.cpu - fifth.own_cpu for fifth in fifths) / case.records * 1e6,
        per_second=case.records / sum(seconds),
        last_to_first=seconds[0] / seconds[-1],
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        state_mib=_mib(folder / "state"),
        log_mib=_mib(folder, "log.db*"),
    )


def _every_key(case: Case) -> Iterator[list[int]]:
    """All keys once, in batches; neighbours are far from each other in the store."""
    step = 7_919
    for begin in range(0, case.keys, BATCH):
        yield [number * step % case.keys for number in range(begin, min(begin + BATCH, case.keys))]


def _random_keys(case: Case, seed: int) -> Iterator[list[int]]:
    chosen = random.Random(seed)
    for _ in range(case.records // FIFTHS // BATCH):
        numbers = chosen.choices(range(case.keys), k=BATCH)
        yield [0 if chosen.random() < case.hot else number for number in numbers] if case.hot else numbers


def _processed(slot: Slot, log: SqliteLog, case: Case, batches: Iterator[list[int]]) -> Spent:
    """Send the batches, then process them, with a commit every 100 ms."""
    for numbers in batches:
        _send(log, case, numbers)
    partitions = [TopicPartition(EVENTS.name, number) for number in range(case.partitions)]
    ends = log.ends(partitions)
    began, cpu, own_cpu = time.perf_counter(), time.process_time(), time.thread_time()
    due = began + COMMIT_SECONDS
    left = set(partitions)
    while left:
        slot.step()
        positions = {one: at for task in slot.tasks for one, at in task.read_from().items()}
        left = {one for one in left if positions[one] < ends[one]}
        if time.perf_counter() >= due or not left:
            slot.commit()
            due = time.perf_counter() + COMMIT_SECONDS
    return Spent(time.perf_counter() - began, time.process_time() - cpu, time.thread_time() - own_cpu)


def _send(log: SqliteLog, case: Case, numbers: list[int]) -> None:
    keys: list[list[bytes]] = [[] for _ in range(case.partitions)]
    for number in numbers:
        key = b"k%d" % number
        keys[partition_for(key, case.partitions)].append(key)
    for partition, own in enumerate(keys):
        if own:
            begins = random.choices(range(len(NOISE) - case.value_bytes), k=len(own))
            values = [NOISE[begin : begin + case.value_bytes] for begin in begins]
            batch = columns_to_batch([FROM] * len(own), list(own), values)
            log.append(TopicPartition(EVENTS.name, partition), batch)


def _mib(folder: Path, pattern: str = "**/*") -> float:
    """What the files take on the disk: those of LMDB have holes."""
    return sum(path.stat().st_blocks for path in folder.glob(pattern) if path.is_file()) * 512 / 2**20


def keys(report: Report, quick: bool) -> None:
    for batches, how in ((True, "whole batches"), (False, "record by record")):
        first: Found | None = None
        for count in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000):
            name = f"{count:,} keys, {how}"
            found = _in_process(report, Case(name, count, 100_000 if quick else 1_000_000, batches=batches))
            first = first or found
            report.measured(f"{name}: CPU, times that of 10,000 keys", found.cpu_us / first.cpu_us, "x")


def partitions(report: Report, quick: bool) -> None:
    for count in (1, 4) if quick else (1, 4, 16, 64):
        case = Case(f"partitions: {count}", 100_000, 100_000 if quick else 1_000_000, partitions=count)
        _in_process(report, case)


def values(report: Report, quick: bool) -> None:
    for size in (100, 10_000):
        case = Case(f"values of {size:,} bytes", 100_000, 50_000 if quick else 200_000, value_bytes=size)
        _in_process(report, case)


def hot(report: Report, quick: bool) -> None:
    for share in (0.0, 0.9):
        case = Case(f"one key has {share:.0%}", 100_000, 100_000 if quick else 1_000_000, hot=share)
        _in_process(report, case)


def _in_process(report: Report, case: Case) -> Found:
    report.progress(case.name)
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as folder:
        command = [sys.executable, "-m", "benchmarks.growth", CASE, msgspec.json.encode(case).decode()]
        answer = subprocess.run([*command, folder], stdout=subprocess.PIPE, check=True, env=os.environ)
    found = msgspec.json.decode(answer.stdout, type=Found)
    report.measured(f"{case.name}: CPU", found.cpu_us, "us/record")
    report.measured(f"{case.name}: CPU of the log's upkeep", found.upkeep_us, "us/record")
    report.measured(f"{case.name}: rate", found.per_second, "records/s")
    report.measured(f"{case.name}: rate in the last fifth to the first", found.last_to_first, "x")
    report.measured(f"{case.name}: peak memory", found.peak_mib, "MiB")
    report.measured(f"{case.name}: state on disk", found.state_mib, "MiB")
    report.measured(f"{case.name}: log on disk", found.log_mib, "MiB")
    return found


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "keys": keys,
    "partitions": partitions,
    "values": values,
    "hot": hot,
}


def main() -> None:
    if sys.argv[1:2] == [CASE]:
        case, folder = msgspec.json.decode(sys.argv[2], type=Case), Path(sys.argv[3])
        print(msgspec.json.encode(measured(case, folder)).decode())
    else:
        run_parts("growth", PARTS)


if __name__ == "__main__":
    main()
