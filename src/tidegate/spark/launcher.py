"""A slot as a Spark job of one partition: a function over an RDD of one row.

`mapInArrow` over a DataFrame of one row does the same, but the first query of a session loads the whole SQL
engine: the first slot would land some seconds later.
"""

from __future__ import annotations

import threading
from functools import partial

from pyspark.sql import SparkSession

from tidegate.clock import SystemClock
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Log
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.spark.session import cores_of, room_for_slots
from tidegate.spark.slot_task import run_slot
from tidegate.spark.stages import stage_error, stage_on_spark

STAGE_IDLE_SECONDS = 0.05


class SparkLauncher:
    """Run slots and stages in a session. Each call blocks its thread and has its own job group."""

    def __init__(
        self, session: SparkSession, app: str, log: Log, location: LogLocation, *, stages: bool
    ) -> None:
        """`location` is where the log is; `stages`, whether the app has DataFrame stages."""
        self._session = session
        self._app = app
        self._log = log
        self._location = location
        self._stages = stages

    def launch(self, order: SlotOrder) -> None:
        context = self._session.sparkContext
        context.setJobGroup(
            self._group(order.slot),
            _description(order),
            interruptOnCancel=True,
        )
        context.parallelize([0], 1).foreachPartition(partial(run_slot, order.encode()))

    def run_stage(self, stage: Stage, number: int, epoch: int, writer: str, stopped: threading.Event) -> None:
        loop = stage_on_spark(
            self._session,
            self._log,
            self._location,
            self._app,
            stage,
            epoch,
            writer,
            self._group(number),
            SystemClock(),
        )
        try:
            while not stopped.is_set():
                if not loop.step():
                    stopped.wait(STAGE_IDLE_SECONDS)
        except Exception as error:
            raise stage_error(error, stage) from error

    def cancel(self, number: int) -> None:
        self._session.sparkContext.cancelJobGroup(self._group(number))

    def room(self) -> int:
        return room_for_slots(self._session, stages=self._stages)

    def cores(self) -> int:
        return cores_of(self._session)

    def _group(self, number: int) -> str:
        kind = f"slot-{number}" if number >= 0 else f"stage-{-number}"
        return f"tidegate-{self._app}-{kind}"


def _description(order: SlotOrder) -> str:
    """Describe a slot's job. Its first job cannot name the tasks: they are planned after it has landed."""
    tasks = " ".join(order.tasks) or "planned once it has landed"
    which = f"slot {order.slot}, epoch {order.epoch}, attempt {order.attempt}"
    return f"tidegate {order.app_id}: {which}, tasks: {tasks}"
