"""A slot as a Spark job of one partition: `mapInArrow` over one row, into the noop sink."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.runtime.order import SlotOrder
from tidegate.spark.worker import run_order


class SparkLauncher:
    """Runs slots in a session. Each call of `launch` blocks its thread, and has a job group of its own."""

    def __init__(self, session: SparkSession, app: str) -> None:
        self._session = session
        self._app = app

    def launch(self, order: SlotOrder) -> None:
        context = self._session.sparkContext
        context.setJobGroup(
            self._group(order.slot),
            f"tidegate {self._app}: slot {order.slot}, epoch {order.epoch}, attempt {order.attempt}",
            interruptOnCancel=True,
        )
        frame = self._session.range(0, 1, 1, 1).mapInArrow(partial(_slot, order.encode()), "beat long")
        frame.write.format("noop").mode("overwrite").save()

    def cancel(self, slot: int) -> None:
        self._session.sparkContext.cancelJobGroup(self._group(slot))

    def _group(self, slot: int) -> str:
        return f"tidegate-{self._app}-slot-{slot}"


def _slot(order: bytes, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On the executor. A beat now and then notices that the JVM is gone; nobody reads it."""
    for _ in rows:
        pass
    for beat in run_order(order):
        yield pa.RecordBatch.from_arrays([pa.array([beat], pa.int64())], names=["beat"])
