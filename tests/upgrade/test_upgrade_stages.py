"""DataFrame stages in previews and upgrades: run when their turn comes, up to their pins, and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet
from tests.upgrade.checks import check_against_fresh, noted_cuts
from tests.upgrade.stages import ORDERS, driver, stages_without_spark
from tests.upgrade.stories import STORY, Killed, kill, send
from tests.upgrade.test_on_slots import ReplayThreads, order_in
from tests.upgrade.upgraded import check_live, check_upgraded, seen, upgraded
from tests.upgrade.versions import (
    CHAINS,
    EVENTS,
    IN,
    MORE,
    OUT,
    PARTITIONS,
    TEXTS,
    Chain,
    changed,
    manifest_of,
)

from tidegate import App, Context, Record, TableTopic, stores
from tidegate.clock import SystemClock
from tidegate.errors import UserCodeError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.slot.stage import StageRow
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.upgrades import upgrade_of
from tidegate.serde.infer import serde_for
from tidegate.testing import Driver
from tidegate.testing.upgrades import upgrade_here
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.make_plan import make_plan
from tidegate.upgrade.previews import run_preview
from tidegate.upgrade.progress import Progress
from tidegate.upgrade.runners import OnSlots

Rows = list[StageRow]
INT = serde_for(int)
SINKS = (OUT.name, TEXTS.name)
ALL = Consent(yes=True, max_removed=1.0, former=True)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.runtime.slot.stage.RECORDS_PER_BATCH", 10)


def weighing(version: int) -> Callable[[Rows], Rows]:
    """The function of a stage: changes values, and drops zeros."""
    weight = changed(version)

    def weigh(rows: Rows) -> Rows:
        values = [weight(INT.decode(one.row.value or b"")) for one in rows]
        return [
            one._replace(row=one.row._replace(value=INT.encode(value)))
            for one, value in zip(rows, values, strict=True)
            if value
        ]

    return weigh


def staged(version: int) -> App:
    """Rows behind the stage: independent of the order, and dependent on it. Events, too."""
    app = App("shop")
    weighed = app.stream(IN).merge(app.stream(MORE)).frame("weigh", weighing(version))
    weighed.group_by("by-value", lambda value: f"v{value % 7}").count("counts").to(OUT)
    weighed.group_by("by-digit", lambda v: f"d{v % 3}").process("chain", Chain, stores=[CHAINS]).to(TEXTS)
    weighed.to(EVENTS)
    return app


def stage_positions(d: Driver) -> dict[TaskId, Position]:
    """Of stages: what reads several partitions."""
    found = read_positions(d.log, "shop")
    return {task: one for task, one in found.items() if any(len(at) > 1 for at in one.sources.values())}


def test_the_rows_of_an_upgraded_stage_are_those_of_a_fresh_run_and_it_goes_on_live() -> None:
    with driver(staged(1), PARTITIONS) as d:
        send(d, STORY[:40])
        d.run()
        events = seen(d.log, EVENTS.name)
        ORDERS.clear()
        entry, rows = upgraded(d, staged(3), *SINKS)
        assert len(rows["texts"]) == 3
        assert entry.differences["texts"].changed == 3
        assert seen(d.log, EVENTS.name) == events
        replayed = [order for order in ORDERS if order.app == names.upgrade("shop")]
        assert len(replayed) > 2
        assert all(end - start <= 5 for order in replayed for start, end in order.spans.values())
        [(_, before)] = [one for one in stage_positions(d).items() if one[0].generation == 2]
        [stage] = d._prepared().stages()
        assert stage.reads in before.sources
        ORDERS.clear()
        send(d, STORY[40:])
        d.run()
        first = min(start for order in ORDERS if order.app == "shop" for start, _ in order.spans.values())
        assert first >= min(before.sources[stage.reads].values())
        check_live(d, staged(3), OUT.name)
        assert sum(map(len, seen(d.log, EVENTS.name).values())) > sum(map(len, events.values()))


def test_the_plan_names_a_stage_as_order_sensitive_and_an_edit_of_its_function_recalculates() -> None:
    with driver(staged(1), PARTITIONS) as d:
        send(d, STORY)
        d.run()
        plan = make_plan(d.log, staged(2).build(), d.clock)
        [component] = plan.components
        assert component.action == "recalculate"
        assert [one.label for one in component.order_sensitive if "batches" in one.why] == ['frame "weigh"']


def two_components(version: int) -> App:
    """A stage that never changes, and a step of another component that does."""
    app = App("shop")
    app.stream(IN).frame("weigh", weighing(1)).group_by("by-value", lambda v: f"v{v % 7}").count("c1").to(OUT)
    app.stream(MORE).map(changed(version)).map(str).to(TEXTS)
    return app


def test_a_stage_of_an_unchanged_component_keeps_its_position_and_reads_nothing_again() -> None:
    with driver(two_components(1), PARTITIONS) as d:
        send(d, STORY)
        d.run()
        d.stop()
        before, ends = stage_positions(d), seen(d.log, OUT.name)
        assert len(before) == 1
        ORDERS.clear()
        entry = d.upgrade(two_components(3))
        assert entry is not None
        assert entry.differences.keys() == {TEXTS.name}
        assert entry.differences[TEXTS.name].differing == len(d.published(TEXTS)) > 0
        assert (stage_positions(d), ORDERS) == (before, [])
        d.run()
        [(task, position)] = before.items()
        assert stage_positions(d).keys() == {task}
        assert seen(d.log, OUT.name) == ends
        offsets = next(iter(position.sources.values()))
        assert all(start >= offsets[at] for order in ORDERS for at, (start, _) in order.spans.items())


def test_killed_anywhere_in_the_stage_it_goes_on_and_repeats_nothing() -> None:
    with driver(staged(1), PARTITIONS) as d:
        send(d, STORY)
        d.run()
        d.stop()
        before, known = {sink: seen(d.log, sink) for sink in SINKS}, manifest_of(d.log)
        killed, number = 0, 0
        while killed < 60:
            try:
                with installed(kill_from("stage.", number)):
                    upgrade_once(d, staged(3))
            except Killed:
                assert {sink: seen(d.log, sink) for sink in SINKS} == before
                killed, number = killed + 1, number + 1
                continue
            break
        assert killed > 8
        entry = upgrade_of(read_control(d.log, "shop"))
        assert entry is not None
        check_upgraded(d.log, staged(3), entry, before, known)
        ran = [order.spans for order in ORDERS if order.app == names.upgrade("shop")]
        spans = [(number, *span) for one in ran for number, span in one.items()]
        assert len(spans) == len(set(spans)), "a batch that was committed is not repeated"


def kill_from(prefix: str, at: int) -> Callable[[str], None]:
    """Kill at the n-th of these points and at each one after it, whatever it is."""
    die = kill(at)
    dead: list[bool] = []

    def hook(point: str) -> None:
        if dead or point.startswith(prefix):
            try:
                die(point)
            except Killed:
                dead.append(True)
                raise

    return hook


def upgrade_once(d: Driver, app: App) -> None:
    upgrade_here(
        app,
        d.log,
        d.clock,
        d._folder / "one",
        ALL,
        partitions=PARTITIONS,
        on_error="stop",
        batches=True,
        open_stages=stages_without_spark,
    )


# --- previews -----------------------------------------------------------------------------------------


def test_a_preview_with_a_stage_shows_the_rows_of_a_fresh_run() -> None:
    with driver(staged(1), PARTITIONS) as d:
        send(d, STORY)
        d.run()
        with noted_cuts() as cuts:
            found = d.preview(staged(2))
        check_against_fresh(d, staged(2), found, cuts[-1])
        assert d.preview(staged(1)).counts["out"].differing == 0


def test_a_function_that_fails_ends_the_preview_and_nothing_is_left() -> None:
    def failing(rows: Rows) -> Rows:
        raise UserCodeError("user-code", "unlucky", "fix it")

    app = App("shop")
    app.stream(IN).frame("weigh", failing).to(EVENTS)
    with driver(staged(1), PARTITIONS) as d:
        send(d, STORY)
        d.run()
        with pytest.raises(UserCodeError, match="unlucky"):
            d.preview(app)
        assert not [topic for topic in d.log.names() if names.of_preview(topic)]


# --- time ---------------------------------------------------------------------------------------------

WINDOWS, WINDOWED = stores.window("windows", int, size=10, retention=5), TableTopic("windowed", int)


class Windowed:
    """Counts records in windows of 10 ms; records that come 5 ms too late do not count."""

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        start = record.timestamp - record.timestamp % 10
        count = (ctx.store(WINDOWS).get(record.key, start) or 0) + 1
        if ctx.store(WINDOWS).put(record.key, start, count):
            ctx.forward(Record(f"{record.key}-{start}", count, record.timestamp))


def windowed(version: int, function: Callable[[Rows], Rows]) -> App:
    app = App("shop")
    framed = app.stream(IN).map(changed(version)).filter(bool).frame("weigh", function)
    framed.process("windowed", Windowed, stores=[WINDOWS]).to(WINDOWED)
    return app


def with_no_place(rows: Rows) -> Rows:
    return [StageRow(one.row, None, None) for one in rows]


@pytest.mark.parametrize("function", [list, with_no_place])
def test_no_record_is_late_behind_a_stage_because_tasks_are_recalculated_one_after_the_other(
    function: Callable[[Rows], Rows],
) -> None:
    with driver(windowed(1, function), PARTITIONS) as d:
        for number in range(80):
            d.send(IN, f"k{number % 5}", number + 1, timestamp=10_000 + number)
            if number % 10 == 9:
                d.run()
        assert sum(d.rows(WINDOWED).values()) == 80
        _, rows = upgraded(d, windowed(2, function), WINDOWED.name)
        assert sum(INT.decode(value) for value in rows["windowed"].values()) == 80


# --- on slots -----------------------------------------------------------------------------------------


def upper_words(line: str) -> list[str]:
    return line.upper().split()


def with_stage(_: str = "") -> App:
    app = App("wordcount")
    words = app.stream(LINES).flat_map(upper_words).frame("as-is", list)
    words.group_by("by-word", lambda word: word, key=str).count("counts").to(COUNTS)
    return app


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        yield Fleet(log, tmp_path)


def test_a_stage_of_a_recalculation_on_slots_runs_alone_and_is_restarted(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.upgrade.progress.REPORT_SECONDS", 0.0)
    for number in range(40):
        fleet.connection.send(LINES, f"k{number % 5}", f"a b{number % 10}")
    fleet.catch_up()
    launcher = ReplayThreads(with_stage, fleet.log)
    launcher.app_id = names.preview("wordcount")
    failed: list[bool] = []

    def run_stage(*order: object) -> None:
        if len(launcher.stage_runs) == 0 and not failed:
            failed.append(True)
            raise UserCodeError("stage-failed", "its worker was lost", "")
        ReplayThreads.run_stage(launcher, *order)  # type: ignore[arg-type]

    launcher.run_stage = run_stage  # type: ignore[method-assign,assignment]
    runner = OnSlots(launcher, order_in(tmp_path, fleet.log), SystemClock(), replace(QUICK, failures=1), 2)
    reported: list[Progress] = []
    found = run_preview(
        with_stage().build(),
        fleet.log,
        SystemClock(),
        lambda _: runner,
        tmp_path / "state",
        partitions=3,
        report=reported.append,
    )
    assert failed
    assert {row.key: row.after for row in found.rows(COUNTS.name) if row.after} == {
        b"A": INT.encode(40),
        **{f"B{number}".encode(): INT.encode(4) for number in range(10)},
    }
    of_stage = {order.epoch for _, order in launcher.stage_runs}
    of_slots = {order.epoch for order in launcher.launched}
    assert of_stage
    assert not of_stage & of_slots
    assert reported[-1].done == reported[-1].to_do > 40 + 80 + 80
