"""DataFrame stages on a session: batch after batch, each one Spark job.

The driver takes the records after the position of the stage (`runtime.slot.stage_loop`). Executors read them,
the user's function returns a frame, and one task writes its rows with the new position
(`runtime.slot.stage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyspark.sql.types as spark
from pyspark.sql import DataFrame, SparkSession

from tidegate.clock import Clock, ManualClock
from tidegate.errors import ConfigError, LogError, TidegateError, UserCodeError, first_line
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Log
from tidegate.runtime.driver.run import Run
from tidegate.runtime.output.on_error import in_user_code
from tidegate.runtime.slot.stage import Result, Stage, StageOrder, StageRow, write_stage
from tidegate.runtime.slot.stage_loop import StageLoop
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.spark.spark_types import part_of
from tidegate.spark.topic_source import OffsetRange, Shipped, read_offset_range
from tidegate.spark.write import POSITION_COLUMNS, FrameRows, written_columns
from tidegate.topology.graph import Topology

RESULT_SCHEMA = "result string, code string, message string, hint string"


class _StageOnSpark:
    """The batches of one stage as Spark jobs."""

    def __init__(
        self, session: SparkSession, log: Log, location: LogLocation, app: str, stage: Stage, group: str
    ) -> None:
        """`location` is where the log is; `group` names the jobs."""
        self._session = session
        self._log = log
        self._app = app
        self._stage = stage
        self._group = group
        source, result = stage.source, stage.result
        self._reads = Shipped(location, stage.reads, True, source.key, source.value, internal=True)  # type: ignore[arg-type]
        # Names of internal topics are not for users to declare; this one is only for messages.
        self._writes = Shipped(location, stage.name, True, result.key, result.value)  # type: ignore[arg-type]

    def run(self, order: StageOrder) -> Result:
        records = sum(end - start for start, end in order.spans.values())
        self._session.sparkContext.setJobGroup(
            self._group,
            f"tidegate {self._app}: stage {self._stage.name}, {records} records",
            interruptOnCancel=True,
        )
        frame = self._apply_function(self._frame(order))
        position_columns = [name for name in POSITION_COLUMNS if name in frame.columns]
        task = partial(_write, msgspec.msgpack.encode(order), self._writes.as_text())
        one_task = frame.repartition(1).sortWithinPartitions(*position_columns or ["key"])
        returned = one_task.mapInArrow(task, RESULT_SCHEMA).collect()
        if not returned:  # Spark runs no task for a frame that is known to be empty
            return write_stage(self._log, order, [])
        if returned[0]["code"]:
            raise LogError(returned[0]["code"], returned[0]["message"], returned[0]["hint"])
        return Result(returned[0]["result"])

    def _frame(self, order: StageOrder) -> DataFrame:
        """Return the records of a batch as a frame, read by one task per partition that has records."""
        spans = [OffsetRange(number, *span) for number, span in sorted(order.spans.items())]
        schema = self._reads.schema()
        task = partial(_read, self._reads.as_text(), schema, spans)
        return self._session.range(0, len(spans), 1, len(spans)).mapInArrow(task, schema)

    def _apply_function(self, frame: DataFrame) -> DataFrame:
        where = f"stage {self._stage.name!r}"
        try:
            result = self._stage.result.functions["function"](frame)
        except TidegateError:
            raise
        except Exception as error:
            raise in_user_code(error, f"{where}: ", self._stage.task.generation) from error
        if not isinstance(result, DataFrame):
            raise UserCodeError(
                "user-code", f"{where}: its function returned a {type(result).__name__}", "return a DataFrame"
            )
        return written_columns(result, self._writes, positions=True)


def stage_on_spark(
    session: SparkSession,
    log: Log,
    location: LogLocation,
    app: str,
    stage: Stage,
    epoch: int,
    writer: str,
    group: str,
    clock: Clock,
) -> StageLoop:
    """Return a stage of one epoch of an app, whose batches run on a session."""
    batches = _StageOnSpark(session, log, location, app, stage, group)
    return StageLoop(log, app, stage, epoch, writer, clock, batches.run)


def open_stages(session: SparkSession, run: Run) -> list[StageLoop]:
    """Run the stages of an app by its written plan; for the driver of `tidegate.testing`."""
    app, log = run.manifest.app, run.log
    plan = read_control(log, app).plan(ROLE)
    writers = {stage.name: stage.writer for stage in plan.stages}
    location = log.location
    if location.in_memory:
        raise ConfigError(
            "log-in-memory", "a log in memory is visible to this process only", "use one with a file"
        )
    return [
        stage_on_spark(
            session,
            log,
            location,
            app,
            stage,
            plan.epoch,
            writers[stage.name],
            f"tidegate-{app}-test",
            run.context.clock,
        )
        for stage in run.stages()
    ]


def check_stages(topology: Topology) -> None:
    """Raise if a frame cannot hold the types of a stage."""
    for _, node in topology.stages():
        for one in (topology.nodes[node.parents[0]], node):
            for serde in (one.key, one.value):
                part_of(serde)  # type: ignore[arg-type]


def stage_error(error: Exception, stage: Stage) -> TidegateError:
    """Convert an error of a batch: errors of tidegate stay, others become one line."""
    if isinstance(error, TidegateError):
        return error
    hint = "fix its function; --debug shows all messages of Spark"
    return UserCodeError("stage-failed", f"stage {stage.name!r}: {first_line(error)}", hint)


def _read(
    text: str, schema: spark.StructType, spans: list[OffsetRange], rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of some partitions; runs on an executor."""
    for batch in rows:
        for number in batch.column(0).to_pylist():
            yield from read_offset_range(text, schema, spans[number])


_order = msgspec.msgpack.Decoder(StageOrder)


def _write(order: bytes, text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a batch, in one task on an executor. Errors of tidegate are returned, not raised: Spark would
    retry and wrap them."""
    spec, found = Shipped.of_text(text), _order.decode(order)
    clock = ManualClock(found.now)
    rows = FrameRows(spec, clock)
    result, failure = "", ("", "", "")
    try:
        with closing(spec.open()) as log:
            result = write_stage(log, found, (_with_positions(rows, batch) for batch in batches), clock)
    except TidegateError as error:
        failure = (error.code, error.message, error.hint)
    columns = [pa.array([one], pa.string()) for one in (result, *failure)]
    yield pa.RecordBatch.from_arrays(columns, names=["result", "code", "message", "hint"])


def _with_positions(rows: FrameRows, batch: pa.RecordBatch) -> list[StageRow]:
    """Return the rows of a batch, each with its source position if the frame kept it."""
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    nothing = [None] * batch.num_rows
    partitions, offsets = (
        columns[name].to_pylist() if name in columns else nothing for name in POSITION_COLUMNS
    )
    return [StageRow(*one) for one in zip(rows.records(batch), partitions, offsets, strict=True)]
