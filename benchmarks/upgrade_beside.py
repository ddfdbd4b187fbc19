"""The part `beside` of `benchmarks.upgrade`: the latency of a live app while a preview of it runs.

The live app is a process with one slot and commits every 100 ms; orders come at a steady rate, and this
process notes when each count can be read. It does so alone, beside a preview in a third process, and beside
a process that only computes: what the preview takes from the live app beyond its share of the cores is the
difference between the last two.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

from benchmarks.apps.runtime_apps import ORDERS, Order
from benchmarks.report import Report, percentile
from benchmarks.runtime_orders import Place, fresh
from benchmarks.upgrade_preview import COUNTS, counting
from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.prepare import prepare
from tidegate.types import TopicPartition
from tidegate.upgrade.previews import run_preview
from tidegate.upgrade.runners import InProcess

RECORDS, QUICK_RECORDS = 500_000, 100_000
SECONDS, QUICK_SECONDS = 15.0, 5.0
PER_SECOND = 20
processes = multiprocessing.get_context("spawn")


def measure(report: Report, quick: bool) -> None:
    records, seconds = (QUICK_RECORDS, QUICK_SECONDS) if quick else (RECORDS, SECONDS)
    with fresh(records) as place:
        stop, ready = processes.Event(), processes.Event()
        app = processes.Process(target=live, args=(place.config, records, ready, stop))
        app.start()
        ready.wait()
        try:
            report.progress("the live app alone")
            alone = latencies(place, "alone", lambda spent: spent < seconds)
            report.progress("the live app beside a preview")
            during = beside(place, "preview", preview, seconds * 20)
            report.progress("the live app beside a process that only computes")
            computing = beside(place, "computing", compute, seconds)
        finally:
            stop.set()
            app.join()
    for name, found in (("alone", alone), ("beside a preview", during), ("beside computing", computing)):
        for part in (50, 99):
            report.measured(f"latency {name}, p{part}", 1000 * percentile(found, part), "ms")
    report.measured(
        "p99 beside a preview, times that beside computing",
        percentile(during, 99) / percentile(computing, 99),
        "x",
    )


def beside(place: Place, name: str, work: Callable[[Config], None], most: float) -> list[float]:
    """The latencies while another process works, from when it has started."""
    other = processes.Process(target=work, args=(place.config,))
    other.start()
    try:
        return latencies(place, name, lambda spent: other.is_alive() and spent < most)
    finally:
        other.terminate()
        other.join()


def latencies(place: Place, name: str, goes_on: Callable[[float], bool]) -> list[float]:
    """Send orders of new customers at a steady rate; return how long after it each one's count was read."""
    partitions = [TopicPartition(COUNTS.name, number) for number in range(place.config.partitions)]
    connection = Connection(place.log, partitions=place.config.partitions)
    sent: dict[bytes, float] = {}
    found: list[float] = []
    began, number = time.monotonic(), 0
    with closing(place.log.reader(place.log.ends(partitions))) as reader:
        while goes_on(time.monotonic() - began) or len(found) < len(sent):
            now = time.monotonic()
            if number < PER_SECOND * (now - began) and goes_on(now - began):
                key = f"{name}-{number}"
                sent[key.encode()] = now
                connection.send(ORDERS, key, Order(number, 1))
                number += 1
            for fetched in reader.poll(0.002):
                keys, read_at = fetched.batch.column("key").to_pylist(), time.monotonic()
                found += [read_at - sent[key] for key in keys if key in sent]
    return found


def live(config: Config, records: int, ready: Event, stop: Event) -> None:
    """A process: the app with one slot, until it is told to stop."""
    with closing(open_log(LogLocation.of(config))) as log:
        run = prepare(counting(1).build(), log, SystemClock(), partitions=config.partitions)
        [slot] = run.slots(Path(config.folder) / "state", 1)
        interval = config.commit_interval_ms / 1000
        due = time.monotonic() + interval
        while not stop.is_set():
            slot.step(wait=max(0.0, min(due - time.monotonic(), 0.02)), until=due)
            if time.monotonic() >= due:
                slot.commit()
                due = time.monotonic() + interval
            if slot.records >= records:
                ready.set()
        slot.close()


def preview(config: Config) -> None:
    """A process: a preview of the next version."""
    folder = Path(config.folder) / "state"
    with closing(open_log(LogLocation.of(config))) as log:
        runner = InProcess(folder)
        run_preview(
            counting(2).build(), log, SystemClock(), lambda _: runner, folder, partitions=config.partitions
        )


def compute(config: Config) -> None:  # noqa: ARG001 - like `preview`
    """A process: nothing but work for one core."""
    number = 0
    while True:
        number += 1
