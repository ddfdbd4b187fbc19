"""`python -m benchmarks.runtime`: slots on Spark beside the same task code without it, in one run.

throughput  one slot on Spark at least 0.8 times one slot in a plain process: a whole-batch count, and a
            processor record by record
latency     5,000 records/s: p50 at most 1.2 times the commit interval
start       from the start of an app on a running session to its first output
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from benchmarks.apps.runtime_apps import COUNTS, ORDERS, Order, adding, counting
from benchmarks.report import Report, median, percentile, run
from tidegate import App
from tidegate.clock import SystemClock
from tidegate.config import Config, load_config
from tidegate.log.ensure import ensure_topic
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.records import columns_to_batch
from tidegate.partitioner import partition_for
from tidegate.runtime.caught_up import CaughtUp
from tidegate.runtime.coordinator import State
from tidegate.runtime.start import prepare
from tidegate.spark.running import Running
from tidegate.spark.session import start_session
from tidegate.types import Offset, TopicPartition

PARTITIONS, KEYS, BATCH = 4, 100_000, 10_000
COMMIT_SECONDS = 0.1
RATE, TICK_SECONDS = 5_000, 0.01
NAMES = {"counting": "benchmarks.apps.runtime_apps:counting", "adding": "benchmarks.apps.runtime_apps:adding"}


@contextmanager
def fresh(records: int) -> Iterator[tuple[Log, Config]]:
    """A log of its own with so many orders in it."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as name:
        config = load_config({"log": "sqlite:///log.db"}, environ={}, folder=Path(name))
        with closing(open_log(config.log, folder=config.folder)) as log:
            ensure_topic(log, ORDERS.name, table=False, partitions=PARTITIONS, default=1, config={})
            fill(log, records)
            yield log, config


def fill(log: Log, records: int) -> None:
    columns: list[tuple[list[int], list[bytes], list[bytes]]] = [([], [], []) for _ in range(PARTITIONS)]
    for number in range(records):
        key = b"customer-%d" % (number * 7919 % KEYS)
        value = msgspec.json.encode(Order(number, number % 1000, "a note of some length, as notes are"))
        times, keys, values = columns[partition_for(key, PARTITIONS)]
        times.append(1_700_000_000_000)
        keys.append(key)
        values.append(value)
    for partition, (times, keys, values) in enumerate(columns):
        for at in range(0, len(times), BATCH):
            part = slice(at, at + BATCH)
            batch = columns_to_batch(times[part], keys[part], values[part])
            log.append(TopicPartition(ORDERS.name, partition), batch)


def without_spark(app: App, records: int) -> float:
    """Records per second of one slot in this process, committing every 100 ms."""
    with fresh(records) as (log, config):
        ready = prepare(app, log, SystemClock())
        [slot] = ready.slots(config.folder / "state", 1)
        caught_up = CaughtUp(ready, log)
        while slot.restoring:
            slot.turn()
        begun = time.perf_counter()
        due = time.monotonic() + COMMIT_SECONDS
        while not caught_up.reached():
            slot.turn(until=due)
            if time.monotonic() >= due:
                slot.commit()
                due = time.monotonic() + COMMIT_SECONDS
        seconds = time.perf_counter() - begun
        slot.close()
    return records / seconds


def on_spark(session: SparkSession, app: App, records: int) -> float:
    """The same by one slot on Spark, from the plan to the last position."""
    with fresh(records) as (log, config):
        running = Running(app, NAMES[app.id], session, config, slots=1)
        while running.state is State.STARTING:
            time.sleep(0.005)
        begun = time.perf_counter()
        caught_up = CaughtUp(prepare(app, log, SystemClock()), log)
        while not caught_up.reached():
            time.sleep(0.01)
        seconds = time.perf_counter() - begun
        running.stop()
        running.wait()
    return records / seconds


def latencies(session: SparkSession, seconds: float) -> tuple[float, list[float]]:
    """Seconds to the first output, then seconds from each order's append to the sight of its count."""
    with fresh(0) as (log, config):
        begun = time.perf_counter()
        fill(log, 1)
        running = Running(counting, NAMES["counting"], session, config, slots=1)
        partitions = [TopicPartition(COUNTS.name, number) for number in range(PARTITIONS)]
        while not sum(log.ends(partitions).values()):
            time.sleep(0.01)
        first = time.perf_counter() - begun
        ended = threading.Event()
        feeder = threading.Thread(target=feed, args=(config, seconds, ended))
        found: list[float] = []
        reader = log.reader({one: Offset(log.ends([one])[one]) for one in partitions})
        feeder.start()
        quiet = 0
        while not ended.is_set() or quiet < 10:
            fetched = reader.poll(0.02)
            now = time.time()
            quiet = 0 if fetched else quiet + 1
            for part in fetched:
                found += [now - at / 1000 for at in part.batch.column(1).to_pylist()]
        feeder.join()
        reader.close()
        running.stop()
        running.wait()
    return first, found


def feed(config: Config, seconds: float, ended: threading.Event) -> None:
    """Some orders every 10 ms, stamped with the time of their append."""
    value = msgspec.json.encode(Order(1, 2, "a note of some length, as notes are"))
    count, sent = int(RATE * TICK_SECONDS), 0
    begun = time.monotonic()
    with closing(open_log(config.log, folder=config.folder)) as log:
        while (passed := time.monotonic() - begun) < seconds:
            now = int(time.time() * 1000)
            keys = [b"customer-%d" % ((sent + number) * 7919 % KEYS) for number in range(count)]
            by_partition: dict[int, list[bytes]] = {}
            for key in keys:
                by_partition.setdefault(partition_for(key, PARTITIONS), []).append(key)
            for partition, mine in by_partition.items():
                batch = columns_to_batch([now] * len(mine), mine, [value] * len(mine))
                log.append(TopicPartition(ORDERS.name, partition), batch)
            sent += count
            time.sleep(max(0.0, sent / RATE - passed - (time.monotonic() - begun - passed)))
    ended.set()


def measure(report: Report, quick: bool) -> None:
    many, few, turns, seconds = (200_000, 50_000, 1, 10.0) if quick else (1_000_000, 200_000, 3, 300.0)
    report.tell("starting Spark")
    session, _ = start_session("benchmark", {"master": "local[2]"})
    on_spark(session, counting, 1000)
    for app, records, what in (
        (counting, many, "whole-batch count"),
        (adding, few, "processor, record by record"),
    ):
        ratios, rates = [], []
        for turn in range(turns):
            report.tell(f"{what}, turn {turn + 1} of {turns}")
            plain, spark = without_spark(app, records), on_spark(session, app, records)
            ratios.append(spark / plain)
            rates.append(spark)
        report.measured(f"{what}: one slot on Spark", median(rates), "records/s")
        report.at_least(f"{what}: times the same without Spark", median(ratios), "x", 0.8)
    report.tell(f"latency at {RATE} records/s, {seconds:.0f} s")
    first, found = latencies(session, seconds)
    report.measured("start to first output, session running", first, "s")
    for share in (50, 99, 99.9):
        report.measured(f"latency p{share:g}", percentile(found, share) * 1000, "ms")
    report.measured("latency max", max(found) * 1000, "ms")
    ratio = percentile(found, 50) / COMMIT_SECONDS
    report.at_most("latency p50 to the commit interval", ratio, "x", 1.2)
    session.stop()


if __name__ == "__main__":
    run("runtime", measure)
