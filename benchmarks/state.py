"""`python -m benchmarks.state`: changelogged state against bare LMDB, in one run.

restore    1M changelog records: at least 0.5 times a bare `putmulti` loop over the same rows
get + put  typed, through all layers and the commit's share: at least 0.25 times bare LMDB
commit     a task with 16 stores: at most 1.5 times one with a single store and the same rows
memory     restoring 5M records: second half at most 1.1 times the first
open       a store that is current: below 5 ms
"""

from __future__ import annotations

import os
import random
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from benchmarks.crew import Crew, Turn
from benchmarks.log_memory import resident
from benchmarks.report import Report, median, run
from tidegate import stores
from tidegate.clock import SystemClock
from tidegate.log.positions import Position, TaskId, positions_topic
from tidegate.log.records import columns_to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.slot.commit import commit
from tidegate.state.builder import StoreBuilder
from tidegate.state.changelog import changelog_spec
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.restore import Restore
from tidegate.types import TopicPartition

APP, TASK = "benchmark", TaskId("benchmark", 1, 0, 0)
BATCH = 10_000
ROUNDS = 5
ROWS = stores.key_value("rows", bytes, key=bytes)
COUNTS = stores.key_value("counts", int)


class Task:
    """The least that can be committed."""

    id = TASK

    def __init__(self, state: StateManager) -> None:
        self.state = state

    def send_time(self) -> None:
        """It has no internal topics."""

    def moved(self) -> bool:
        return True

    def outputs(self) -> list[Any]:
        return []

    def position(self, changelogs: dict[str, int]) -> Position:
        return Position(changelogs=changelogs)

    def committed(self, position: Position) -> None:
        """Nothing to forget."""


def opened(log: SqliteLog, home: Path, builders: list[StoreBuilder[Any]], at: Position) -> StateManager:
    """A task's state, restored to a position."""
    limits = Limits(commit_seconds=3600, commit_bytes=1 << 40)
    manager = StateManager(Owner(APP, TASK, log.id), home, SystemClock(), limits)
    for builder in builders:
        manager.register(builder, f"{builder.name}-changelog")
    restore = Restore(manager, log, at)
    restore.open()
    restore.run()
    return manager


def made_rows(count: int, first: int = 0) -> tuple[list[bytes], list[bytes]]:
    """Keys in random order, most of them once, and values of some 60 bytes."""
    rng = random.Random(first)
    keys = [b"customer-%08d" % rng.randrange(count) for _ in range(count)]
    return keys, [b'{"orders": %d, "cents": %d, "note": "of no weight"}' % (n, n * 7) for n in range(count)]


def fill(log: SqliteLog, topic: str, count: int) -> None:
    """A changelog of so many records, a million keys at a time."""
    partition = TopicPartition(topic, 0)
    writer = log.writer("filler")
    for first in range(0, count, 1_000_000):
        keys, values = made_rows(min(1_000_000, count - first), first)
        for at in range(0, len(keys), BATCH):
            part = slice(at, at + BATCH)
            times = [1_700_000_000_000] * len(keys[part])
            writer.append(partition, columns_to_batch(times, keys[part], values[part]))
            writer.commit()
    writer.close()


def restore_speed(report: Report, folder: Path, count: int) -> None:
    report.progress(f"restore of {count:,} records")
    log = SqliteLog(folder / "log.db")
    log.create(changelog_spec("rows-changelog", 1, {}))
    fill(log, "rows-changelog", count)
    keys, values = made_rows(count)
    ratios, speeds = [], []
    for turn in range(5):
        begun = time.perf_counter()
        env = lmdb.open(str(folder / f"bare-{turn}"), map_size=4 << 30)
        with env.begin(write=True) as txn:
            for at in range(0, count, BATCH):
                txn.cursor().putmulti(list(zip(keys[at : at + BATCH], values[at : at + BATCH], strict=True)))
        env.close()
        bare = time.perf_counter() - begun
        begun = time.perf_counter()
        opened(log, folder / f"home-{turn}", [ROWS], Position(changelogs={"rows": count})).close()
        ours = time.perf_counter() - begun
        ratios.append(bare / ours)
        speeds.append(count / ours)
    log.close()
    report.measured("restore", median(speeds), "records/s")
    report.at_least("restore, times bare putmulti", ratios, "x", 0.5)


def get_and_put(report: Report, folder: Path, count: int) -> None:
    report.progress("typed get and put")
    log = SqliteLog(folder / "log.db")
    log.create(changelog_spec("counts-changelog", 1, {}))
    log.create(positions_topic(APP))
    rng = random.Random(1)
    keys = [f"customer-{rng.randrange(100_000)}" for _ in range(count)]
    manager = opened(log, folder / "home", [COUNTS], Position(changelogs={"counts": 0}))
    env = lmdb.open(str(folder / "bare"), map_size=1 << 30)
    number = struct.Struct(">q")
    ratios, times = [], []
    for _ in range(5):
        begun = time.perf_counter()
        txn = env.begin(write=True)
        for key in keys:
            data = key.encode()
            found = txn.get(data)
            txn.put(data, number.pack((number.unpack(found)[0] if found else 0) + 1))
        txn.commit()
        bare = time.perf_counter() - begun
        store = manager.store(COUNTS)
        begun = time.perf_counter()
        for at in range(0, count, BATCH):
            for key in keys[at : at + BATCH]:
                store.put(key, (store.get(key) or 0) + 1)
            manager.change_records()
            manager.apply(Position(changelogs={"counts": 0}), 0)
        manager.persist_now()
        ours = time.perf_counter() - begun
        ratios.append(bare / ours)
        times.append(ours / count * 1e6)
    manager.drop()
    env.close()
    log.close()
    report.measured("typed get + put, with the commit's share", median(times), "µs")
    report.at_least("typed get + put, times bare LMDB", ratios, "x", 0.25)


def commits(report: Report, folder: Path, turns: int) -> None:
    report.progress("commits with 1 and 16 stores")
    log = SqliteLog(folder / "log.db")
    log.create(positions_topic(APP))
    many = [stores.key_value(f"s{number}", int) for number in range(16)]
    for builder in [COUNTS, *many]:
        log.create(changelog_spec(f"{builder.name}-changelog", 1, {}))
    benches: list[tuple[list[Any], StateManager, Any, list[float]]] = []
    for name, builders in (("one", [COUNTS]), ("sixteen", many)):
        at = Position(changelogs={builder.name: 0 for builder in builders})
        benches.append((builders, opened(log, folder / name, builders, at), log.writer(name), []))
    for turn in range(turns):
        for builders, manager, writer, times in benches:
            for row in range(1600):
                manager.store(builders[row % len(builders)]).put(f"key-{row}", turn)
            begun = time.perf_counter()
            commit(APP, log, writer, [Task(manager)], SystemClock())
            times.append(time.perf_counter() - begun)
    pieces = [slice(at * turns // ROUNDS, (at + 1) * turns // ROUNDS) for at in range(ROUNDS)]
    one, sixteen = ([median(bench[3][piece]) for piece in pieces] for bench in benches)
    ratios = [many / single for many, single in zip(sixteen, one, strict=True)]
    for _, manager, _, _ in benches:
        manager.drop()
    log.close()
    report.measured("commit of 1,600 rows, one store", median(one) * 1e3, "ms")
    report.at_most("commit of 1,600 rows, 16 stores to one", ratios, "x", 1.5)


def open_time(report: Report, folder: Path) -> None:
    report.progress("opening a current store")
    log = SqliteLog(folder / "log.db")
    log.create(changelog_spec("rows-changelog", 1, {}))
    fill(log, "rows-changelog", 100_000)
    at = Position(changelogs={"rows": 100_000})
    opened(log, folder / "home", [ROWS], at).close()
    times = []
    for _ in range(50):
        begun = time.perf_counter()
        manager = opened(log, folder / "home", [ROWS], at)
        times.append(time.perf_counter() - begun)
        manager.drop()
    log.close()
    report.below("open of a current store", median(times) * 1e3, "ms", 5)


def memory(report: Report, folder: Path, count: int) -> None:
    report.progress(f"memory: restoring {count:,} records")
    log = SqliteLog(folder / "log.db")
    log.create(changelog_spec("rows-changelog", 1, {}))
    fill(log, "rows-changelog", count)
    log.close()
    with Crew(1) as crew:
        [(first, second)] = crew.play([(restore_and_watch, (folder, count))])
    report.measured("memory: first half of a restore", first / 2**20, "MiB")
    report.at_most("memory: second half to first", second / first, "x", 1.1)


def restore_and_watch(turn: Turn, folder: Path, count: int) -> tuple[int, int]:
    """The most private memory in the first and second half. LMDB's map is the kernel's cache, shared and
    given back when others need it: only what the process itself holds counts."""
    log = SqliteLog(folder / "log.db")
    manager = StateManager(Owner(APP, TASK, log.id), folder / "home", SystemClock())
    manager.register(ROWS, "rows-changelog")
    restore = Restore(manager, log, Position(changelogs={"rows": count}))
    turn.wait()
    restore.open()
    peaks = [0, 0]
    while not restore.step():
        half = int(manager.offsets["rows"] >= count // 2)
        peaks[half] = max(peaks[half], resident() - shared())
    turn.finish()
    manager.drop()
    log.close()
    return peaks[0], peaks[1]


def shared() -> int:
    """Bytes of files that are mapped by this process."""
    return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")


def measure(report: Report, quick: bool) -> None:
    """Each part in a folder of its own on the disk of the working folder."""
    parts: list[Callable[[Path], None]] = [
        lambda folder: restore_speed(report, folder, 200_000 if quick else 1_000_000),
        lambda folder: get_and_put(report, folder, 50_000 if quick else 200_000),
        lambda folder: commits(report, folder, 30 if quick else 200),
        lambda folder: open_time(report, folder),
        lambda folder: memory(report, folder, 500_000 if quick else 5_000_000),
    ]
    for part in parts:
        with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as folder:
            part(Path(folder))


if __name__ == "__main__":
    run("state", measure)
