"""DataFrame stages without Spark: what one task does with the rows of a batch, whatever comes in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.runtime.fleet import COUNTS, LINES, Fleet, as_they_are
from tests.waiting import wait_for

from tidegate import App
from tidegate.clock import SystemClock
from tidegate.errors import FencedError, SerdeError
from tidegate.log.faultpoints import installed
from tidegate.log.positions import read_positions
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, Row, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import attach
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.output.origin import origin_of
from tidegate.runtime.output.time_only import is_time_only
from tidegate.runtime.slot.stage import Result, Stage, StageOrder, StageRow, next_spans, write_stage
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.testing.faults import Crash
from tidegate.types import TopicPartition

CLOCK = SystemClock()
pytestmark = pytest.mark.slow


def upper(frame: object) -> object:
    """Never called here: a test plays Spark."""
    return frame


def split(line: str) -> list[str]:
    return line.split()


def staged() -> App:
    """The word count with a stage in the middle."""
    app = App("wordcount")
    words = app.stream(LINES).flat_map(split).frame("as-is", upper)
    words.group_by("by-word", lambda word: word, key=str).count("counts").to(COUNTS)
    return app


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        yield Fleet(log, tmp_path, staged)


class Prepared:
    """A stage with records before it, whose driver is gone: a test does its work."""

    def __init__(self, fleet: Fleet, lines: int = 40) -> None:
        for number in range(lines):
            fleet.connection.send(LINES, f"k{number}", f"a b{number % 3}", timestamp=1_000 + number)
        self.log = fleet.log
        self.run: Run = attach_after_a_start(fleet)
        self.stage: Stage = self.run.stages()[0]
        plan = read_control(self.log, "wordcount").plan(ROLE)
        self.epoch, self.writer = plan.epoch, plan.stages[0].writer

    def order(self) -> StageOrder:
        stage = self.stage
        spans = next_spans(self.log, stage, read_positions(self.log, "wordcount")[stage.task])
        return StageOrder(
            "wordcount",
            stage.name,
            stage.task,
            self.epoch,
            ROLE,
            self.writer,
            stage.reads,
            stage.writes,
            CLOCK.now(),
            spans,
        )

    def write(self, order: StageOrder) -> Result:
        return write_stage(self.log, order, [as_they_are(self.log, order)])

    def written(self) -> list[ReadRow]:
        rows = self.all_written()
        return [row for row in rows if not is_time_only(row.headers)]

    def all_written(self, *numbers: int) -> list[ReadRow]:
        """Of some partitions, or of all."""
        chosen = numbers or range(self.stage.partitions)
        partitions = [TopicPartition(self.stage.writes, number) for number in chosen]
        ends = self.log.ends(partitions)
        return [
            row
            for partition in partitions
            for batch in read_between(self.log, partition, 0, ends[partition])
            for row in rows_of(batch)
        ]


def attach_after_a_start(fleet: Fleet) -> Run:
    """Slots run until the stage has its input; the stage itself does nothing."""
    driver, launcher = fleet.driver(1)
    launcher.run_stage = lambda *order: order[-1].wait()  # type: ignore[method-assign]
    run = attach(staged().build(), fleet.log, CLOCK)
    stage = run.stages()[0]
    partitions = [TopicPartition(stage.reads, number) for number in range(stage.partitions)]
    sources = [TopicPartition(LINES.name, number) for number in range(3)]

    def ready() -> bool:
        at = [
            position.sources.get(LINES.name, {})
            for position in read_positions(fleet.log, "wordcount").values()
        ]
        taken = sum(offset for offsets in at for offset in offsets.values())
        return taken == sum(fleet.log.ends(sources).values()) and sum(fleet.log.ends(partitions).values()) > 0

    with fleet.during(driver):
        wait_for(ready)
    return run


@pytest.mark.parametrize("step", range(1, 9))
def test_a_crash_at_any_step_leaves_every_row_once(fleet: Fleet, step: int) -> None:
    prepared = Prepared(fleet)
    order = prepared.order()

    def die(name: str) -> None:
        if name == f"stage.{step}":
            raise Crash(name, elsewhere=False)

    with installed(die), pytest.raises(Crash):
        prepared.write(order)
    assert prepared.write(order) is (Result.BEFORE if step == 8 else Result.WRITTEN)
    assert prepared.write(order) is Result.BEFORE
    assert len(prepared.written()) == 80
    assert prepared.order().spans == {}


def test_a_run_that_was_overtaken_writes_nothing(fleet: Fleet) -> None:
    """The first run of a task stands still, the second one does it, the first one wakes up."""
    prepared = Prepared(fleet)
    order = prepared.order()

    def overtaken() -> Iterator[list[StageRow]]:
        yield as_they_are(prepared.log, order)
        assert prepared.write(order) is Result.WRITTEN

    with pytest.raises(FencedError):
        write_stage(prepared.log, order, overtaken())
    assert len(prepared.written()) == 80


def test_a_batch_of_an_older_epoch_writes_nothing(fleet: Fleet) -> None:
    prepared = Prepared(fleet)
    order = prepared.order()
    take_over(prepared.log, "wordcount", 1, CLOCK).close()
    with pytest.raises(FencedError):
        prepared.write(order)
    assert prepared.all_written() == []


def test_a_new_driver_fences_a_stage_in_the_middle_of_its_batch(fleet: Fleet) -> None:
    prepared = Prepared(fleet)
    order = prepared.order()

    def taken_over() -> Iterator[list[StageRow]]:
        yield as_they_are(prepared.log, order)
        take_over(prepared.log, "wordcount", 1, CLOCK).close()

    with pytest.raises(FencedError):
        write_stage(prepared.log, order, taken_over())
    assert prepared.all_written() == []


def test_a_batch_that_begins_elsewhere_is_void(fleet: Fleet) -> None:
    prepared = Prepared(fleet)
    order = prepared.order()
    number, (start, end) = next(iter(order.spans.items()))
    shifted = msgspec.structs.replace(order, spans={number: (start + 1, end)})
    assert prepared.write(shifted) is Result.VOID
    assert prepared.all_written() == []


def test_rows_keep_their_origin_and_stream_time_goes_on_behind(fleet: Fleet) -> None:
    prepared = Prepared(fleet)
    order = prepared.order()
    rows = as_they_are(prepared.log, order)
    unplaced = [StageRow(Row(b"k", b"new", 5), None, None)]
    write_stage(prepared.log, order, [rows[:-1], unplaced])
    written = {row.value: row for row in prepared.written()}
    origins = [origin_of(row.headers) for row in prepared.written() if row.value != b"new"]
    assert len(origins) == len(rows) - 1 > 0
    assert all(origin is not None and origin.position.startswith("lines/") for origin in origins)
    new = origin_of(written[b"new"].headers)
    assert new is not None
    assert (new.position, new.time) == ("-", 0)
    reported = [row for row in prepared.all_written() if is_time_only(row.headers)]
    assert [row.timestamp for row in reported] == [1_039] * 3
    assert [origin.time for row in reported if (origin := origin_of(row.headers))] == [1_039] * 3
    numbers = sorted(origin.sequence for row in prepared.all_written() if (origin := origin_of(row.headers)))
    assert numbers == list(range(1, len(numbers) + 1))


def test_rows_of_several_partitions_come_in_the_order_of_time(fleet: Fleet) -> None:
    """A backlog: partition after partition, those behind would take most of it for late."""
    prepared = Prepared(fleet)
    order = prepared.order()
    assert len(order.spans) == 3
    prepared.write(order)
    for number in range(prepared.stage.partitions):
        rows = [row for row in prepared.all_written(number) if not is_time_only(row.headers)]
        times = [origin.time for row in rows if (origin := origin_of(row.headers))]
        assert times == sorted(times) == [row.timestamp for row in rows], "none of them was late"
        places: dict[str, list[int]] = {}
        for row in rows:
            origin = origin_of(row.headers)
            assert origin is not None
            place, _, offset = origin.position.rpartition("/")
            places.setdefault(place, []).append(int(offset))
        assert places
        assert all(offsets == sorted(offsets) for offsets in places.values())


def test_a_row_without_a_key_is_refused_and_nothing_is_written(fleet: Fleet) -> None:
    prepared = Prepared(fleet)
    with pytest.raises(SerdeError, match="without a key"):
        write_stage(prepared.log, prepared.order(), [[StageRow(Row(None, b"v", 1), None, None)]])
    assert prepared.all_written() == []


def test_a_batch_without_results_moves_the_position_on(fleet: Fleet) -> None:
    prepared = Prepared(fleet)
    assert write_stage(prepared.log, prepared.order(), []) is Result.WRITTEN
    assert (prepared.written(), prepared.order().spans) == ([], {})


def test_catching_up_waits_for_stages(fleet: Fleet) -> None:
    for number in range(300):
        fleet.connection.send(LINES, f"k{number}", f"a b{number % 3}")
    driver, launcher = fleet.catch_up()
    assert fleet.counts() == {"a": 300, "b0": 100, "b1": 100, "b2": 100}
    assert {number for number, _ in launcher.stage_runs} == {-1}
    assert driver.overview.restarts == 0
