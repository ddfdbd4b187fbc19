"""The parts `preview` and `kafka` of `benchmarks.upgrade`: the rate of a preview beside that of the live app.

One slot in this process, with a slot's settings for memory, first runs the app live over all records, with a
commit every 100 ms; then a preview of another version recalculates the same records, and compares all rows.
In between the embedded log is compacted, or the preview would pay for what the live app left to compact. The
app counts orders per customer, over whole batches; a second one groups them by another key first, through an
internal topic.

Both rates are those of the slot, from opening its tasks until they are closed. What a preview does before,
such as creating topics, does not depend on the number of records, and is a line of its own.

On Kafka one turn of each app goes before those that count: the broker is slower until its code is compiled.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.apps.runtime_apps import ORDERS
from benchmarks.peers.bench import CONFIG, JVM
from benchmarks.report import Report, median
from benchmarks.runtime_orders import KEYS, PARTITIONS, Place, fill, fresh
from tidegate import App, TableTopic
from tidegate.clock import SystemClock
from tidegate.config.config import load_config
from tidegate.log.ensure import ensure_topic
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.spark.worker import keep_freed_memory, rare_garbage_collection
from tidegate.testing.broker import KafkaCluster
from tidegate.upgrade.previews import Preview, run_preview
from tidegate.upgrade.recalculate import Pins, Step
from tidegate.upgrade.runners import InProcess

RECORDS, QUICK_RECORDS, TURNS = 1_000_000, 200_000, 5
KAFKA_RECORDS = 2_000_000
Apps = Callable[[int], App]
LEAST_TIMES = 2.0
COUNTS = TableTopic("counts", int)


def counting(version: int) -> App:
    """Version 2 leaves out the orders of one customer in hundred. Both versions compute the same, so that
    one is as slow as the other."""
    app, left_out = App("counting"), _left_out(version)
    app.stream(ORDERS).filter(lambda order: order.id * 7919 % 100 != left_out).count("counted").to(COUNTS)
    return app


def grouping(version: int) -> App:
    app, left_out = App("grouping"), _left_out(version)
    kept = app.stream(ORDERS).filter(lambda order: order.id * 7919 % 100 != left_out)
    kept.group_by("by-customer", lambda order: f"c{order.id * 7919 % KEYS}").count("counted").to(COUNTS)
    return app


def _left_out(version: int) -> int:
    return 0 if version == 2 else -1


APPS: tuple[tuple[str, Apps], ...] = (("count", counting), ("group_by and count", grouping))


def measure(report: Report, quick: bool) -> None:
    """Take turns: the speed of a rented core changes from one second to the next."""
    records, turns = (QUICK_RECORDS, 1) if quick else (RECORDS, TURNS)
    for name, build in APPS:
        _turns(report, f"preview, {name}", build, lambda: fresh(records), records, turns, judged=not quick)


def measure_on_kafka(report: Report, quick: bool) -> None:
    records, turns = (QUICK_RECORDS, 1) if quick else (KAFKA_RECORDS, TURNS)
    with (
        tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd(), ignore_cleanup_errors=True) as at,
        KafkaCluster(Path(at) / "kafka", config=CONFIG, jvm=JVM) as kafka,
        closing(KafkaLog(kafka.bootstrap)) as log,
    ):
        report.progress(f"kafka: filling the source with {records:,} records")
        ensure_topic(log, ORDERS.name, table=False, partitions=PARTITIONS, default=1, config={})
        fill(log, records)

        @contextmanager
        def cleared() -> Iterator[Place]:
            for name in log.names():
                if name != ORDERS.name:
                    log.delete(name)
            with tempfile.TemporaryDirectory(prefix="app-", dir=at) as folder:
                settings = {"log": f"kafka://{kafka.bootstrap}", "partitions": PARTITIONS}
                yield Place(log, load_config(settings, environ={}, folder=Path(folder)))

        for name, build in APPS:
            if not quick:
                report.progress(f"kafka, {name}: warming up")
                with cleared() as place:
                    live_seconds(place, build, records)
                    preview_seconds(place, build)
            _turns(report, f"kafka, {name}", build, cleared, records, turns, judged=not quick)


def _turns(
    report: Report,
    name: str,
    build: Apps,
    places: Callable[[], AbstractContextManager[Place]],
    records: int,
    turns: int,
    *,
    judged: bool,
) -> None:
    keep_freed_memory()
    lives, ratios, rows = [], [], 0
    previews: list[Took] = []
    for turn in range(turns):
        report.progress(f"{name}: {records:,} records, turn {turn + 1} of {turns}")
        with rare_garbage_collection(), places() as place:
            live = live_seconds(place, build, records)
            if isinstance(place.log, SqliteLog):
                place.log.upkeep()
            found, took = preview_seconds(place, build)
        # On Kafka the end of a transaction takes an offset too.
        if found.records < records or not found.counts[COUNTS.name].differing:
            raise RuntimeError(f"the preview is wrong: {found.counts}")
        lives.append(records / live)
        previews.append(took)
        ratios.append(live / took.recalculation)
        rows = found.counts[COUNTS.name].equal
    report.measured(f"{name}: live, one slot", median(lives), "records/s")
    rates = [records / took.recalculation for took in previews]
    report.measured(f"{name}: recalculation of a preview, one slot", median(rates), "records/s")
    times = f"{name}: recalculation, times the live rate"
    if judged:
        report.at_least(times, ratios, "x", LEAST_TIMES)
    else:  # two records of each key: next to nothing to fold
        report.measured(times, median(ratios), "x")
    report.measured(f"{name}: preparation of a preview", median([one.preparation for one in previews]), "s")
    compared = median([one.comparison for one in previews])
    report.measured(f"{name}: comparison of {rows:,} equal rows and the rest", compared, "s")


def live_seconds(place: Place, build: Apps, records: int) -> float:
    """How long the live app takes for all records."""
    run = prepare(build(1).build(), place.log, SystemClock(), partitions=place.config.partitions)
    interval = place.config.commit_interval_ms / 1000
    began = time.monotonic()
    slots = run.slots(Path(place.config.folder) / "state", 1)
    due = time.monotonic() + interval
    while slots[0].step(until=due) or not slots[0].drained() or slots[0].records < records:
        if slots[0].records >= records and slots[0].drained():
            slots[0].commit()  # what it adds to internal topics is read by the next step
        if time.monotonic() >= due:
            slots[0].commit()
            due = time.monotonic() + interval
    slots[0].close()
    return time.monotonic() - began


class Took(NamedTuple):
    """How many seconds the parts of a preview took."""

    preparation: float
    recalculation: float
    comparison: float
    """With cleaning up."""


class _Timed(InProcess):
    """Runs the tasks of a preview, and adds up how long."""

    seconds = 0.0

    def run(self, run: Run, pinned: Pins, step: Step) -> None:
        began = time.monotonic()
        super().run(run, pinned, step)
        self.seconds += time.monotonic() - began


def preview_seconds(place: Place, build: Apps) -> tuple[Preview, Took]:
    """A preview, and how long its parts took."""
    steps: list[float] = []
    runner = _Timed(Path(place.config.folder) / "state")
    began = time.monotonic()
    found = run_preview(
        build(2).build(),
        place.log,
        SystemClock(),
        lambda _: runner,
        Path(place.config.folder) / "state",
        partitions=place.config.partitions,
        report=lambda _progress: steps.append(time.monotonic()),
    )
    compared = time.monotonic() - steps[-1]
    return found, Took(steps[-1] - began - runner.seconds, runner.seconds, compared)
