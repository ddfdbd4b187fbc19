"""One slot on Spark beside one slot in a process without Spark, both warm, in turns, on equal logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from pyspark.sql import SparkSession

from benchmarks.apps import runtime_apps
from benchmarks.crew import Crew, Turn
from benchmarks.report import Report, median
from benchmarks.runtime_orders import Place, fresh
from benchmarks.runtime_watch import commits, steady
from tidegate import App
from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.slot.slot import Slot
from tidegate.spark.running import Running

TARGET = 0.8
APPS = {"counting": runtime_apps.counting, "adding": runtime_apps.adding}


def measure(report: Report, session: SparkSession, *, quick: bool) -> None:
    """The median of many short turns, in which the two sides take turns at being first: the speed of a rented
    core changes from one second to the next, by more than the target leaves room for."""
    many, few, turns = (300_000, 100_000, 5) if quick else (500_000, 200_000, 11)
    with Crew(1) as crew:
        for name, records, what in (
            ("counting", many, "whole-batch count"),
            ("adding", few, "processor, record by record"),
        ):
            plains, sparks = [], []
            for turn in range(turns + 1):
                report.progress(
                    f"{what}, {records:,} records, " + (f"turn {turn} of {turns}" if turn else "warm-up")
                )
                if turn % 2:
                    plains.append(without_spark(crew, name, records))
                sparks.append(on_spark(session, APPS[name], records))
                if not turn % 2:
                    plains.append(without_spark(crew, name, records))
            plains, sparks = plains[1:], sparks[1:]
            ratios = [spark / plain for spark, plain in zip(sparks, plains, strict=True)]
            report.measured(f"{what}: one slot without Spark", median(plains), "records/s")
            report.measured(f"{what}: its fastest turn to its slowest", max(plains) / min(plains), "x")
            report.measured(f"{what}: one slot on Spark", median(sparks), "records/s")
            report.at_least(f"{what}: times the same without Spark", median(ratios), "x", TARGET)


def on_spark(
    session: SparkSession, app: App, records: int, *, slots: int = 1, partitions: int = 4, keys: int = 100_000
) -> float:
    """Records per second of an app's slots on Spark."""
    with (
        fresh(records, partitions=partitions, keys=keys) as place,
        running(session, app, place, slots) as run,
    ):
        return steady(list(commits(place.log, app.id, records, lambda: not run.wait(0))))


@contextmanager
def running(session: SparkSession, app: App, place: Place, slots: int = 1) -> Iterator[Running]:
    """The app, started; stopped at the end. Raises if one of its slots failed: what was measured then is
    something else."""
    run = Running(app, f"{runtime_apps.__name__}:{app.id}", session, place.config, slots=slots)
    try:
        yield run
    finally:
        run.stop()
        run.wait()
    if run.view.failures:
        raise RuntimeError(f"a slot of {app.id} failed while it was measured: {run.view.failures[0][1]}")


def without_spark(crew: Crew, name: str, records: int) -> float:
    """Records per second of one slot in a process of its own."""
    app = APPS[name]
    with fresh(records) as place:
        prepare(app.build(), place.log, SystemClock(), partitions=place.config.partitions)
        thread = threading.Thread(target=crew.play, args=([(slot_alone, (name, place.config))],))
        thread.start()
        found = list(commits(place.log, app.id, records, thread.is_alive))
        thread.join()
    return steady(found)


def slot_alone(turn: Turn, name: str, config: Config) -> None:
    """All tasks in one slot until everything is taken, committing each interval."""
    interval = config.commit_interval_ms / 1000
    with closing(open_log(LogLocation.of(config), create=False)) as log:
        ready = prepare(APPS[name].build(), log, SystemClock(), partitions=config.partitions)
        turn.wait()
        [slot] = ready.slots(config.folder / "state", 1)
        ends = log.ends(ready.sources())
        due = time.monotonic() + interval
        while slot.restoring or taken(slot) < sum(ends.values()):
            slot.step(until=due)
            if time.monotonic() >= due:
                slot.commit()
                due = time.monotonic() + interval
        slot.close()
        turn.finish()


def taken(slot: Slot) -> int:
    """How many records its tasks have behind them."""
    return sum(offset for task in slot.tasks for offset in task.read_from().values())
