"""How far a recalculation is, how fast it goes, and how long it still takes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.upgrade import versions
from tests.upgrade.test_recalculate import ID, world
from tests.upgrade.versions import PARTITIONS

from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.status import Status
from tidegate.server.slot_status import SlotStatuses
from tidegate.upgrade import progress as module
from tidegate.upgrade.progress import Meter, Progress, StepProgress, progress_text
from tidegate.upgrade.recalculate import Pins, Recalculation
from tidegate.upgrade.recalculation import prepare_recalculation
from tidegate.upgrade.runners import InProcess


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Slow(InProcess):
    """Takes two records of each task at a time."""

    def _opened(self, run: Run, pinned: Pins) -> list[Slot]:
        slots = super()._opened(run, pinned)
        for slot in slots:
            slot.records_per_step = 2
        return slots


def steps(*done_and_to_do: tuple[int, int | None]) -> list[StepProgress]:
    return [StepProgress("by-word", number, *one) for number, one in enumerate(done_and_to_do)]


def test_the_rate_is_that_of_the_last_seconds_and_leaves_out_what_was_done_before() -> None:
    time = Time()
    meter = Meter(time)
    meter.start(steps((5000, 20_000)))
    assert not meter.due()
    time.now += 1
    assert meter.due()
    found = meter.measured(1, steps((6000, 20_000)))
    assert found.per_second == 1000
    assert not meter.due()
    for second in range(60):
        time.now += 1
        found = meter.measured(1, steps((6000 + 200 * (second + 1), 20_000)))
        assert 200 < found.per_second < 1000
    assert found.per_second == pytest.approx(200, rel=0.01)
    assert found.seconds_left == pytest.approx((20_000 - 18_000) / 200, rel=0.01)


def test_time_between_two_rounds_does_not_count() -> None:
    time = Time()
    meter = Meter(time)
    time.now += 2
    meter.measured(1, steps((200, 200)))
    time.now += 600
    meter.start(steps((200, 400)))
    time.now += 1
    assert meter.measured(2, steps((300, 400))).per_second == pytest.approx(100)


def test_the_time_left_is_a_lower_bound_until_all_records_can_be_counted() -> None:
    found = Progress(1, steps((250, 1000), (0, None)), 10.0)
    assert (found.done, found.to_do, found.complete, found.seconds_left) == (250, 1000, False, 75.0)
    assert progress_text(found) == "250 of 1,000 or more records, 10 per second, at least 1 min 15 s left"
    found = Progress(2, steps((1000, 1000), (0, 72_000)), 10.0)
    assert progress_text(found) == ("round 2, 1,000 of 73,000 records, 10 per second, about 2 h 0 min left")
    assert progress_text(Progress(1, steps((0, 10)))) == "0 of 10 records"
    assert Progress(1, steps((0, 10))).seconds_left is None
    assert progress_text(Progress(1, steps((10, 10)), 5.0)) == "10 of 10 records, 5 per second"


def test_a_progress_crosses_the_status_topic() -> None:
    found = Progress(1, steps((250, 1000), (0, None)), 10.0)
    status = msgspec.json.decode(msgspec.json.encode(found.status(3, 77)), type=Status)
    assert status == found.status(3, 77)
    assert progress_text(found.status(3, 77)) == progress_text(found)
    statuses = SlotStatuses()
    statuses.take(status, 1.0, counts=True)
    assert statuses.recalculating == (1.0, status)
    assert statuses.slots == {}


def test_a_recalculation_reports_while_a_step_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time between two reports: each commit is one."""
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)
    found: list[Progress] = []
    with world(versions.chained, tmp_path) as w:
        run = prepare_recalculation(
            w.app.build(),
            ID,
            w.d.log,
            w.d.clock,
            live=versions.manifest_of(w.d.log),
            partitions=PARTITIONS,
            batches=False,
        )
        Recalculation(run, Slow(tmp_path, commit_seconds=0.0), found.append).run(w.cut(run))
    assert len({one.steps[0].done for one in found}) > 2
    assert [one.done for one in found] == sorted(one.done for one in found)
    assert not found[0].complete
    assert found[-1].complete
    assert found[-1].done == found[-1].to_do
    assert found[-1].seconds_left == 0
