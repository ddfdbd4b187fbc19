"""Slots as threads of this process: the driver's code and the slots' code as they are, with no Spark."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import HANG_SECONDS

from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.errors import TidegateError
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import Row, rows_of
from tidegate.runtime.driver.caught_up import CaughtUp
from tidegate.runtime.driver.coordinator import Coordinator, DriverResources, Patience
from tidegate.runtime.driver.prepare import attach, prepare
from tidegate.runtime.driver.takeover import Claim
from tidegate.runtime.output.time_only import is_time_only
from tidegate.runtime.slot.job import SlotIntervals, SlotJob
from tidegate.runtime.slot.stage import Result, Stage, StageOrder, StageRow, write_stage
from tidegate.runtime.slot.stage_loop import StageLoop
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.types import TopicPartition

LINES = Topic("lines", str)
COUNTS = TableTopic("word-counts", int)
QUICK = Patience(landing_seconds=60, stop_seconds=60, failures=3, within_seconds=120, back_off_seconds=0.05)
"""Quick to start again. What only comes to an end when something hangs, takes its time."""


def wordcount(words: Callable[[str], list[str]] = str.split, seconds_each: float = 0.0) -> App:
    """The word count; behind the internal topic each word takes some time."""

    def split(line: str) -> list[str]:
        return words(line)

    app = App("wordcount")
    grouped = app.stream(LINES).flat_map(split).group_by("by-word", lambda word: word)
    if seconds_each:
        grouped = grouped.peek(lambda _: time.sleep(seconds_each))
    grouped.count("counts").to(COUNTS)
    return app


def send(fleet: Fleet, first: int, count: int) -> None:
    """Lines by number, with keys in all partitions."""
    for number in range(first, first + count):
        fleet.connection.send(LINES, f"k{number % 5}", _line(number))


def expected(count: int) -> dict[str, int]:
    """What the first lines come to, with the one of the fixture."""
    words = Counter(word for number in range(count) for word in _line(number).split())
    return dict(words + Counter(["up"]))


def _line(number: int) -> str:
    return f"a b{number % 10} c"


def as_they_are(log: Log, order: StageOrder) -> list[StageRow]:
    """The records of a batch in their order, as Spark would bring them: without time-only records."""
    return [
        StageRow(Row(row.key, row.value, row.timestamp), number, row.offset)
        for number, (start, end) in sorted(order.spans.items())
        for batch in read_between(log, TopicPartition(order.reads, number), start, end)
        for row in rows_of(batch)
        if not is_time_only(row.headers)
    ]


class Threads:
    """A launcher. `before` is called in the slot's thread before its job begins."""

    def __init__(self, app: Callable[[], App], log: Log) -> None:
        self._app = app
        self._log = log
        self.launched: list[SlotOrder] = []
        self.before: Callable[[SlotOrder], object] = lambda _: None
        self.cancelled: dict[int, threading.Event] = {}
        self.rooms = 2
        self.asked_for_room = 0
        self.intervals = SlotIntervals(report_seconds=0.1)
        self.stage_runs: list[tuple[int, StageOrder]] = []
        self.app_id = "wordcount"

    def launch(self, order: SlotOrder) -> None:
        self.launched.append(order)
        cancelled = self.cancelled[order.slot] = threading.Event()
        self.before(order)
        clock = SystemClock()
        run = attach(self._app().build(), self._log, clock)
        for _ in SlotJob(order, run, self._log, clock, self.intervals).run():
            if cancelled.is_set():
                raise InterruptedError("cancelled")

    def run_stage(self, stage: Stage, number: int, epoch: int, writer: str, stopped: threading.Event) -> None:
        """A stage whose function gives back what it gets, without Spark."""

        def run_batch(order: StageOrder) -> Result:
            self.stage_runs.append((number, order))
            return write_stage(self._log, order, [as_they_are(self._log, order)])

        loop = StageLoop(self._log, self.app_id, stage, epoch, writer, SystemClock(), run_batch)
        while not stopped.is_set():
            if not loop.step():
                stopped.wait(0.02)

    def room(self) -> int:
        self.asked_for_room += 1
        return self.rooms

    def cores(self) -> int:
        return self.rooms + 1

    def cancel(self, number: int) -> None:
        if number in self.cancelled:  # else it has not begun
            self.cancelled[number].set()


class Fleet:
    """One app on one log; each `driver` is a new start of it."""

    def __init__(self, log: Log, folder: Path, app: Callable[[], App] = wordcount) -> None:
        self.log = log
        self.folder = folder
        self.app = app
        self.commit_interval_ms = 20
        self.partitions = 3
        self.state_dir = "state"
        self.connection = Connection(log, partitions=3, clock=SystemClock(), owned=False)

    def driver(
        self,
        slots: int | None = 2,
        *,
        until_caught_up: bool = False,
        patience: Patience = QUICK,
        machine: str | None = None,
        threads: type[Threads] = Threads,
    ) -> tuple[Coordinator, Threads]:
        run = prepare(self.app().build(), self.log, SystemClock(), partitions=self.partitions)
        launcher = threads(self.app, self.log)
        caught_up = CaughtUp(run, self.log) if until_caught_up else None

        def order(claim: Claim, slot: int, attempt: int) -> SlotOrder:
            return SlotOrder(
                app="",
                app_id=claim.app,
                settings={},
                fingerprint="",
                log=self.log.location,
                folder=str(self.folder),
                state_dir=self.state_dir,
                epoch=claim.epoch,
                slot=slot,
                attempt=attempt,
                writer=claim.writer_id(slot),
                commit_interval_ms=self.commit_interval_ms,
                pinned=caught_up.as_plain() if caught_up else None,
            )

        made = Coordinator(
            DriverResources(run, self.log, launcher, order, SystemClock(), patience),
            slots,
            until_caught_up=caught_up,
            machine=machine,
        )
        return made, launcher

    def catch_up(self, slots: int = 2) -> tuple[Coordinator, Threads]:
        """Run to the end of what there is."""
        made, launcher = self.driver(slots, until_caught_up=True)
        made.run()
        return made, launcher

    @contextmanager
    def running(self, slots: int = 2, patience: Patience = QUICK) -> Iterator[tuple[Coordinator, Threads]]:
        """A driver in a thread, stopped at the end."""
        made, launcher = self.driver(slots, patience=patience)
        with self.during(made):
            yield made, launcher

    @contextmanager
    def during(self, made: Coordinator, name: str | None = None) -> Iterator[None]:
        """The driver in a thread, stopped at the end."""
        thread = threading.Thread(target=_quietly, args=(made,), name=name)
        thread.start()
        try:
            yield
        finally:
            made.stop()
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()

    def prepared(self) -> Log:
        """The log, with everything in it that the app needs."""
        prepare(self.app().build(), self.log, SystemClock(), partitions=3)
        return self.log

    def counts(self) -> dict[str, int]:
        return self.connection.rows(COUNTS)


def _quietly(coordinator: Coordinator) -> None:
    """Whatever it raises is kept in `error`."""
    with suppress(TidegateError):
        coordinator.run()
