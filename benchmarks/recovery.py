"""`python -m benchmarks.recovery`: how long an app is silent after a SIGKILL, and in which phase.

An app that counts orders runs by `tidegate run --slots 2` on a local Spark and the embedded log, while orders
come all the time. Then the driver is killed, Python and Java, and started again at once; and later one slot's
Python process alone. A partition goes on with its first count by the new driver, or by the new process.
(Slots of a killed driver still work for up to a second, until they notice.)

What Spark takes by itself is measured beside it, in turns: a process that starts a session and runs one task
in a Python worker, and nothing else. What is promised is the ratio.

Phases are read off the log and the driver's own lines, so the processes measured get no requests:

    python     from the start of the process to "starting Spark": imports, the app, checks
    session    to the first sign of the driver in the control topic: Java, Spark's session, the take-over
    landing    to the landing of the last slot: a Spark job, a Python worker, imports, the log
    plan       to the plan
    tasks      to the first count of the partition that was last: open and restore state, process, commit
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from benchmarks.apps.runtime_apps import COUNTS, ORDERS, Order
from benchmarks.report import Report, median, run
from benchmarks.runtime_watch import wait_for
from tidegate.config.config import load_config
from tidegate.log import names
from tidegate.log.ensure import ensure_topic
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import columns_to_batch
from tidegate.runtime.topics.status import Landing, Status
from tidegate.types import Offset, TopicPartition

ROOT = Path(__file__).parents[1]
APP, PARTITIONS, KEYS = "counting", 4, 1000
OUTPUTS = [TopicPartition(COUNTS.name, number) for number in range(PARTITIONS)]
CONTROL = TopicPartition(names.control(APP), 0)
STATUS = TopicPartition(names.status(APP), 0)
SETTLED_SECONDS = 8.0
"""By then stores have written their memtables, as they do every few seconds."""
DRIVER_TARGET, SLOT_TARGET = 1.5, 1.0
PHASES = ("python", "session", "landing", "plan", "tasks")
TOML = """
app = "benchmarks.apps.runtime_apps:counting"
log = "sqlite:///log.db"
partitions = 4
"""
BARE = """
import time
began = time.perf_counter()
from pyspark.sql import SparkSession
session = (SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
made = time.perf_counter()
session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()
done = time.perf_counter()
session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()
print(made - began, done - made, time.perf_counter() - done, flush=True)
session.stop()
"""


@dataclass(frozen=True, slots=True)
class Bare:
    """What Spark takes by itself."""

    session: float
    first_task: float
    next_task: float


class Feeder:
    """Orders to all partitions, all the time, inside a `with`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _feed(self) -> None:
        value = msgspec.json.encode(Order(1, 2))
        number = 0
        while not self._ended.wait(0.02):
            number += 1
            for partition in range(PARTITIONS):
                key = b"%d-%d" % (partition, number % KEYS)
                batch = columns_to_batch([int(time.time() * 1000)], [key], [value])
                self._log.append(TopicPartition(ORDERS.name, partition), batch)


class Driver:
    """`tidegate run`, with its lines and their times."""

    def __init__(self, folder: Path) -> None:
        self.began = time.time()
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate", "run", "--slots", "2"],
            cwd=folder,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")},
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            },
        )
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def time_of(self, text: str) -> float:
        """When a line with this text first came."""
        wait_for(lambda: any(text in line for _, line in self.lines) or self.process.poll() is not None, 180)
        return next(at for at, line in self.lines if text in line)

    def kill(self) -> None:
        """Python and Java at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.lines.append((time.time(), line.decode(errors="replace")))


class Place:
    """A folder with the app's log, and what can be read off it."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.folder = folder
        self.log = log

    def await_counts(self, planned_since: Offset | None = None, seconds: float = 180.0) -> list[float]:
        """When each output partition had its next count; with an offset of the control topic, its first
        behind a plan from there on."""
        seen: dict[TopicPartition, float] = {}
        deadline = time.monotonic() + seconds
        if planned_since is not None:
            wait_for(lambda: "plan/active" in self.control(planned_since), seconds)
        with closing(self.log.reader(self.log.ends(OUTPUTS))) as reader:
            while len(seen) < PARTITIONS:
                if time.monotonic() > deadline:
                    raise TimeoutError("an output partition stays silent")
                for fetched in reader.poll(0.05):
                    if fetched.batch.num_rows:
                        seen.setdefault(fetched.partition, time.time())
        return list(seen.values())

    def control(self, since: Offset) -> dict[str, float]:
        """When each key of the control topic was first written."""
        found: dict[str, float] = {}
        for batch in read_between(self.log, CONTROL, since, self.log.ends([CONTROL])[CONTROL]):
            for at, key in zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True):
                found.setdefault(key.decode(), at / 1000)
        return found

    def landings(self, since: Offset) -> list[tuple[float, Landing]]:
        """The landings, and when each was published."""
        found: list[tuple[float, Landing]] = []
        for batch in read_between(self.log, STATUS, since, self.log.ends([STATUS])[STATUS]):
            for at, value in zip(batch.column(1).to_pylist(), batch.column(3).to_pylist(), strict=True):
                reported = msgspec.json.decode(value, type=Status)
                if isinstance(reported, Landing):
                    found.append((at / 1000, reported))
        return found

    def ends(self) -> dict[TopicPartition, Offset]:
        return self.log.ends([CONTROL, STATUS])


@contextmanager
def place() -> Iterator[Place]:
    """On the disk of the working folder."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as name:
        folder = Path(name)
        (folder / "tidegate.toml").write_text(TOML)
        config = load_config(environ={}, folder=folder)
        with closing(open_log(LogLocation.of(config))) as log:
            for topic, table in ((ORDERS.name, False), (COUNTS.name, True)):
                ensure_topic(log, topic, table=table, partitions=PARTITIONS, default=PARTITIONS, config={})
            yield Place(folder, log)


def bare() -> Bare:
    """One process with Spark and nothing of tidegate."""
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=True, env=env)
    return Bare(*map(float, done.stdout.split()))


def killed_driver(place: Place, driver: Driver) -> tuple[Driver, dict[str, float]]:
    """Kill it, start the next; the seconds of each phase, and of all."""
    before = place.ends()
    driver.kill()
    began = time.time()
    again = Driver(place.folder)
    counts = place.await_counts(before[CONTROL])
    spark = again.time_of("starting Spark")
    control, landings = place.control(before[CONTROL]), place.landings(before[STATUS])
    times = [
        began,
        spark,
        control["epoch/active"],
        max(at for at, _ in landings),
        control["plan/active"],
        max(counts),
    ]
    phases = {name: times[index + 1] - times[index] for index, name in enumerate(PHASES)}
    return again, {"all": max(counts) - began, **phases}


def killed_slot(place: Place, slot: int) -> dict[str, float]:
    """Kill one slot's Python process; the seconds until the next attempt lands, and until all of its
    partitions go on."""
    before = place.ends()[STATUS]
    newest = {one.slot: one for _, one in place.landings(Offset(0))}
    began = time.time()
    os.kill(newest[slot].pid, signal.SIGKILL)
    wait_for(lambda: bool(place.landings(before)), 180)
    counts = place.await_counts()
    [(landed, _), *_] = place.landings(before)
    return {"landing": landed - began, "all": max(counts) - began}


def measure(report: Report, quick: bool) -> None:
    """Kills and bare Spark in turns."""
    rounds = 1 if quick else 5
    drivers: list[dict[str, float]] = []
    slots: list[dict[str, float]] = []
    bares: list[Bare] = []
    with place() as where, Feeder(where.log):
        report.progress("the first start")
        driver = Driver(where.folder)
        try:
            where.await_counts()
            for number in range(rounds):
                report.progress(f"round {number + 1} of {rounds}")
                time.sleep(SETTLED_SECONDS)
                slots.append(killed_slot(where, number % 2))
                time.sleep(SETTLED_SECONDS)
                driver, found = killed_driver(where, driver)
                drivers.append(found)
                bares.append(bare())
        finally:
            driver.kill()
    spark = median([one.session + one.first_task for one in bares])
    report.measured("Spark alone: imports and session", median([one.session for one in bares]), "s")
    report.measured("Spark alone: first task in Python", median([one.first_task for one in bares]), "s")
    report.measured("Spark alone: next task in Python", median([one.next_task for one in bares]), "s")
    whole = median([one["all"] for one in drivers])
    report.measured("driver killed: until all partitions go on", whole, "s")
    for name in PHASES:
        report.measured(f"driver killed: {name}", median([one[name] for one in drivers]), "s")
    report.at_most("driver killed, times Spark alone", whole / spark, "x", DRIVER_TARGET)
    slot, first = median([one["all"] for one in slots]), median([one.first_task for one in bares])
    report.measured("slot killed: until it lands again", median([one["landing"] for one in slots]), "s")
    report.measured("slot killed: until its partitions go on", slot, "s")
    report.at_most("slot killed, times Spark's first task", slot / first, "x", SLOT_TARGET)


if __name__ == "__main__":
    run("recovery", measure)
