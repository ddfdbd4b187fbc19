"""DataFrame stages whose function is Python: a list of rows takes the place of the DataFrame. What reads and
writes the records is the stage's own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.runtime.fleet import as_they_are

from tidegate import App
from tidegate.clock import ManualClock
from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.stage import Result, Stage, StageOrder, write_stage
from tidegate.runtime.slot.stage_loop import StageLoop
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.testing import Driver

ORDERS: list[StageOrder] = []
"""The batches that ran."""


def stages_without_spark(run: Run) -> list[StageLoop]:
    plan = read_control(run.log, run.manifest.app).plan(ROLE)
    writers = {one.name: one.writer for one in plan.stages}
    return [_loop(run, stage, plan.epoch, writers[stage.name]) for stage in run.stages()]


def _loop(run: Run, stage: Stage, epoch: int, writer: str) -> StageLoop:
    def run_batch(order: StageOrder) -> Result:
        rows = stage.result.functions["function"](as_they_are(run.log, order))
        written = write_stage(run.log, order, [rows], ManualClock(order.now))
        ORDERS.append(order)
        return written

    return StageLoop(run.log, run.manifest.app, stage, epoch, writer, run.context.clock, run_batch)


@contextmanager
def driver(app: App, partitions: int) -> Iterator[Driver]:
    """A driver for apps with such stages."""
    ORDERS.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.testing.driver.stages_on", lambda _: stages_without_spark)
        with Driver(app, partitions=partitions, spark="none") as d:
            yield d
