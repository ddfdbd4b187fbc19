"""R(new, F): one subtopology after the other, pinned and strict, and resumed wherever it was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.upgrade import versions
from tests.upgrade.stories import STORY, Killed, kill, send
from tests.upgrade.versions import IN, PARTITIONS, START, fresh_rows, rows_of_side

from tidegate import App, Context, Record, TableTopic, stores
from tidegate.clock import ManualClock
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.positions import Position, read_positions
from tidegate.runtime.driver.run import Run
from tidegate.runtime.replay import REPLAYED, Cut, Replay
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.task.task_clock import TaskClock
from tidegate.state.manager import Limits
from tidegate.state.store_time import StoreTime
from tidegate.testing import Driver
from tidegate.types import TopicPartition
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.cut import live_cut
from tidegate.upgrade.recalculate import Pins, Recalculation, Step
from tidegate.upgrade.recalculation import prepare_recalculation
from tidegate.upgrade.runners import InProcess

ID = names.preview("shop")
LATEST = TableTopic("latest", str)


class Noting(InProcess):
    """Notes which subtopologies ran."""

    def __init__(self, state_dir: Path, slots: int = 1) -> None:
        super().__init__(state_dir, slots, Limits(sync=False))
        self.steps: list[tuple[str, int] | None] = []

    def run(self, run: Run, pinned: Pins, step: Step) -> None:
        self.steps.append(run.step)
        super().run(run, pinned, step)


@dataclass
class World:
    """A live app in a driver, and recalculations of it."""

    d: Driver
    app: App
    folder: Path

    def prepared(self) -> Run:
        live = versions.manifest_of(self.d.log)
        return prepare_recalculation(
            self.app.build(), ID, self.d.log, self.d.clock, live=live, partitions=PARTITIONS
        )

    def cut(self, run: Run) -> Cut:
        return live_cut(
            self.d.log, versions.manifest_of(self.d.log), run.manifest.sources, {}, self.d.clock
        ).cut

    def rows(self, run: Run) -> dict[str, dict[bytes, bytes]]:
        staging = run.context.staging
        found = {topic: Compared(topic, None, info, b"") for topic, info in staging.items()}
        return {topic: rows_of_side(self.d.log, one) for topic, one in found.items()}


@contextmanager
def world(build: Callable[[int], App], folder: Path, version: int = 2) -> Iterator[World]:
    with Driver(build(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        yield World(d, build(version), folder)


def test_each_subtopology_runs_once_after_those_that_it_reads_from(tmp_path: Path) -> None:
    with world(versions.chained, tmp_path) as w:
        run, runner = w.prepared(), Noting(tmp_path)
        recalculation, cut = Recalculation(run, runner), w.cut(run)
        recalculation.run(cut)
        [component] = run.context.topology.components
        assert runner.steps == [(component.id, number) for number in (0, 1, 2)]
        assert w.rows(run) == fresh_rows(w.app, w.d.log, cut, None)
        recalculation.run(cut)
        assert len(runner.steps) == 3
        [first, *others] = recalculation.progress()
        assert first.done == first.to_do == sum(which == 0 for which, *_ in STORY)
        assert all(one.done == one.to_do for one in others)


@pytest.mark.parametrize("slots", [1, 3])
def test_killed_at_any_point_it_goes_on_and_comes_to_the_same_rows(tmp_path: Path, slots: int) -> None:
    with world(versions.ordered, tmp_path) as w:
        run = w.prepared()
        cut = w.cut(run)
        expected = fresh_rows(w.app, w.d.log, cut, None)
        killed, number = 0, 0
        while True:
            runner = Noting(tmp_path, slots)
            try:
                with installed(kill(number)):
                    Recalculation(run, runner).run(cut)
            except Killed:
                killed, number = killed + 1, number + 7
                continue
            break
        assert killed > 5
        assert w.rows(run) == expected


class InSmallSteps(Noting):
    """Behind internal topics takes two records of each task at a time, and commits each time."""

    def _opened(self, run: Run, pinned: Pins) -> list[Slot]:
        slots = super()._opened(run, pinned)
        self._commit_seconds = 0.0 if run.step and run.step[1] else 1.0
        for slot in slots:
            slot.pace = slot.pace._replace(most_shares=1)
            slot.records_per_step = 2 if run.step and run.step[1] else 10_000
        return slots


def test_killed_within_a_sorted_partition_it_goes_on_behind_what_it_has_taken(tmp_path: Path) -> None:
    """Its position may be above the end of the partition, in which a block of records has one offset."""
    above_the_end = 0
    with world(versions.ordered, tmp_path) as w:
        for _ in range(10):
            send(w.d, STORY)
        w.d.run()
        run = w.prepared()
        cut = w.cut(run)
        number = 5
        while True:
            try:
                with installed(kill(number)):
                    Recalculation(run, InSmallSteps(tmp_path)).run(cut)
            except Killed:
                number += 5
                at = {
                    TopicPartition(topic, one): offset
                    for position in read_positions(w.d.log, ID).values()
                    for topic, offsets in position.sources.items()
                    for one, offset in offsets.items()
                }
                ends = w.d.log.ends(at)
                above_the_end += any(offset > ends[partition] for partition, offset in at.items())
                continue
            break
        assert above_the_end > 3
        assert w.rows(run) == fresh_rows(w.app, w.d.log, cut, None)


@pytest.mark.parametrize("before", ["1", "2"])
def test_what_a_position_has_recorded_of_this_round_stays(tmp_path: Path, before: str) -> None:
    """A task that is opened again after its end may commit before it has finished once more."""
    with world(versions.ordered, tmp_path) as w:
        context = replace(w.prepared().context, replay=Replay(wall=1, round=2))
        clock = TaskClock(context, StoreTime())
        clock.start(Position(progress={REPLAYED: before}))
        assert clock.progress(0, finished=False).get(REPLAYED) == {"1": None, "2": "2"}[before]
        assert clock.progress(0, finished=True)[REPLAYED] == "2"


class Keeping(Noting):
    """Keeps the slots that it ran."""

    def _opened(self, run: Run, pinned: Pins) -> list[Slot]:
        self.slots = super()._opened(run, pinned)
        return self.slots


def test_turns_that_took_little_do_not_make_later_ones_longer(tmp_path: Path) -> None:
    """However quick they were: they do not show how long the user's functions take for a whole share."""
    with world(versions.aggregated, tmp_path) as w:
        run, runner = w.prepared(), Keeping(tmp_path)
        Recalculation(run, runner).run(w.cut(run))
        assert [slot._shares for slot in runner.slots] == [1]
        assert runner.slots[0].processed > 0


def test_a_later_round_reads_the_rest_only(tmp_path: Path) -> None:
    with world(versions.chained, tmp_path) as w:
        run, runner = w.prepared(), Noting(tmp_path)
        recalculation = Recalculation(run, runner)
        recalculation.run(w.cut(run))
        before = {task: position.sources for task, position in read_positions(w.d.log, ID).items()}
        for story in (STORY[:7], [], STORY[7:30]):
            send(w.d, story)
            w.d.run()
            cut = w.cut(run)
            recalculation = Recalculation(run, runner)
            recalculation.run(cut)
            assert w.rows(run) == fresh_rows(w.app, w.d.log, cut, None)
        after = {task: position.sources for task, position in read_positions(w.d.log, ID).items()}
        assert before.keys() == after.keys()
        assert before != after


def test_a_round_that_was_killed_is_finished_before_the_next_one(tmp_path: Path) -> None:
    with world(versions.chained, tmp_path) as w:
        run = w.prepared()
        for number in range(0, 60, 9):
            with installed(kill(number)), pytest.raises(Killed):
                Recalculation(run, Noting(tmp_path)).run(w.cut(run))
            send(w.d, STORY[number : number + 9])
            w.d.run()
        cut = w.cut(run)
        Recalculation(run, Noting(tmp_path)).run(cut)
        assert w.rows(run) == fresh_rows(w.app, w.d.log, cut, None)


# --- the newest row under strict order ----------------------------------------------------------------


def last_of_any(_: int) -> App:
    """Tasks of all partitions write one row: the newest by time counts, whoever commits last."""
    app = App("shop")

    def one(record: Record[str, int]) -> Record[str, str]:
        return Record("one", f"{record.key} {record.timestamp - START}", record.timestamp)

    app.stream(IN).map_records(one).to(LATEST)
    return app


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_of_two_tasks_that_write_one_row_the_newest_under_strict_order_counts(
    tmp_path: Path, slots: int
) -> None:
    with Driver(last_of_any(1), partitions=3) as d:
        for number, key in enumerate(["ada", "bob", "cy", "dan", "eve", "fay"] * 3):
            d.send(IN, key, number, timestamp=START + number)
        d.run()
        w = World(d, last_of_any(1), tmp_path)
        run = w.prepared()
        Recalculation(run, Noting(tmp_path, slots)).run(w.cut(run))
        [row] = w.rows(run)["latest"].values()
        assert row == b"fay 17"


# --- time ---------------------------------------------------------------------------------------------

REMINDERS, MARKS = stores.timers("reminders", by="wall"), TableTopic("marks", str)
SECOND = 1000


class Reminded:
    """A timer ten seconds after each record, and once more ten seconds after that."""

    def process(self, record: Record[str, int], ctx: Context[str, str]) -> None:
        ctx.store(REMINDERS).set(record.key, ctx.now() + 10 * SECOND)

    def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
        late = (ctx.now() - at) // SECOND
        ctx.forward(Record(key, f"{(at - START) // SECOND}+{late}", at))
        if at < START + 20 * SECOND:
            ctx.store(REMINDERS).set(key, at + 10 * SECOND)


def reminded(_: int) -> App:
    app = App("shop")
    app.stream(IN).process("remind", Reminded, stores=[REMINDERS]).to(MARKS)
    return app


@pytest.mark.parametrize(
    ("wall", "expected"),
    [
        (5, {}),
        (12, {"ada": "10+2"}),
        (25, {"ada": "20+5", "bob": "24+1"}),
        (99, {"ada": "20+79", "bob": "24+75"}),
    ],
)
def test_wall_clock_timers_are_called_up_to_the_wall_time_of_the_cut(
    tmp_path: Path, wall: int, expected: dict[str, str]
) -> None:
    with Driver(reminded(1), clock=ManualClock(START)) as d:
        d.send(IN, "ada", 1, timestamp=START)
        d.send(IN, "bob", 1, timestamp=START + 4 * SECOND)
        d.run()
        w = World(d, reminded(1), tmp_path)
        run = w.prepared()
        cut = replace_wall(w.cut(run), START + wall * SECOND)
        d.advance(500 * SECOND)
        Recalculation(run, Noting(tmp_path)).run(cut)
        assert {key.decode(): row.decode() for key, row in w.rows(run)["marks"].items()} == expected


def replace_wall(cut: Cut, wall: int) -> Cut:
    return Cut(cut.ends, wall)
