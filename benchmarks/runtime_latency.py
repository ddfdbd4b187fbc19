"""Latency at a steady rate, from when an order was due to be appended to the sight of its count; and the time
that an app needs from its start to its first output.

An order is stamped with the time at which it was due, not with the time at which the append began: a log that
makes its producer wait would else hide that wait.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing

from pyspark.sql import SparkSession

from benchmarks.apps.runtime_apps import COUNTS, ORDERS, counting
from benchmarks.crew import Crew, Turn
from benchmarks.report import Report, median, percentile
from benchmarks.runtime_orders import KEYS, PARTITIONS, Place, fill, fresh, key_of, value_of
from benchmarks.runtime_throughput import running
from benchmarks.runtime_watch import wait_for
from tidegate.config.config import Config
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.partitioner import partition_for
from tidegate.log.records import columns_to_batch
from tidegate.types import TopicPartition

RATE, TICK_SECONDS = 5_000, 0.01
WARM_SECONDS = 5.0
TARGET = 1.2
OUTPUTS = [TopicPartition(COUNTS.name, number) for number in range(PARTITIONS)]


def measure(report: Report, session: SparkSession, *, quick: bool) -> None:
    """First outputs, then so many minutes of one app."""
    report.progress("time to the first output")
    firsts = [first_output(session) for _ in range(3 if quick else 5)]
    report.measured("start to first output, session running", median(firsts), "s")
    seconds = 15.0 if quick else 300.0
    report.progress(f"latency at {RATE:,} records/s, {seconds:.0f} s")
    with fresh(0) as place, running(session, counting, place), Crew(1) as crew:
        found, late = latencies(crew, place, seconds)
    name = f"latency at {RATE:,}/s, {seconds:.0f} s"
    report.measured(f"{name}: records seen", len(found) / seconds, "records/s")
    report.measured(f"{name}: the producer was late by at most", late * 1000, "ms")
    for share in (50, 99, 99.9):
        report.measured(f"{name}: p{share:g}", percentile(found, share) * 1000, "ms")
    report.measured(f"{name}: max", max(found) * 1000, "ms")
    interval = place.config.commit_interval_ms / 1000
    report.at_most(f"{name}: p50 to the commit interval", percentile(found, 50) / interval, "x", TARGET)


def first_output(session: SparkSession) -> float:
    """Seconds from the start of an app, whose source holds one order, until its output can be read."""
    with fresh(1) as place:
        begun = time.perf_counter()
        with running(session, counting, place):
            wait_for(lambda: sum(place.log.ends(OUTPUTS).values()) > 0)
            return time.perf_counter() - begun


def latencies(crew: Crew, place: Place, seconds: float) -> tuple[list[float], float]:
    """The latency of every order after the warm-up, and how late the producer once was."""
    fill(place.log, 1)
    wait_for(lambda: sum(place.log.ends(OUTPUTS).values()) > 0)
    lates: list[float] = []
    job = (feed, (place.config, WARM_SECONDS + seconds))
    feeder = threading.Thread(target=lambda: lates.extend(crew.play([job])))
    feeder.start()
    found: list[tuple[float, int]] = []
    with closing(place.log.reader(place.log.ends(OUTPUTS))) as reader:
        quiet = 0
        while feeder.is_alive() or quiet < 10:
            fetched = reader.poll(0.02)
            now = time.time()
            quiet = 0 if fetched else quiet + 1
            for part in fetched:
                found += [(now, at) for at in part.batch.column("timestamp").to_pylist()]
    feeder.join()
    [late] = lates
    first = min(at for _, at in found) + WARM_SECONDS * 1000
    return [now - at / 1000 for now, at in found if at >= first], late


def feed(turn: Turn, config: Config, seconds: float) -> float:
    """Some orders every 10 ms, in one transaction; by how much one began late at most, after the warm-up."""
    count, sent, worst = int(RATE * TICK_SECONDS), 0, 0.0
    with closing(open_log(LogLocation.of(config), create=False)) as log:
        writer = log.writer("producer")
        turn.wait()
        begun = time.time()
        while (due := sent / RATE) < seconds:
            wait = begun + due - time.time()
            if wait > 0:
                time.sleep(wait)
            elif due > WARM_SECONDS:
                worst = max(worst, -wait)
            for partition, keys in by_partition(range(sent, sent + count)).items():
                stamps = [int((begun + due) * 1000)] * len(keys)
                batch = columns_to_batch(stamps, keys, [value_of(sent)] * len(keys))
                writer.append(TopicPartition(ORDERS.name, partition), batch)
            writer.commit()
            sent += count
        writer.close()
        turn.finish()
    return worst


def by_partition(numbers: range) -> dict[int, list[bytes]]:
    """The keys of some orders, by the partition that they go to."""
    found: dict[int, list[bytes]] = {}
    for number in numbers:
        key = key_of(number, KEYS)
        found.setdefault(partition_for(key, PARTITIONS), []).append(key)
    return found
