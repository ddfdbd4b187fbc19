"""Write rows of a DataFrame as records of a topic.

Spark may run a task twice: if the first run was interrupted after it had committed, its rows would be written
again. So each attempt does, in this order: 1 take all rows from Spark and keep them encoded (`spool`): no
transaction is open while Spark computes; 2 mark that it has begun; 3 open its writer, which fences an older
attempt of the same task; 4 read the marks, which are in a topic of their own, to the end: if its call is not
open it fails, if its task is marked as written it ends; 5 append the rows, and wait until the log has them:
from 6 on, other readers of the marks wait for this transaction; 6 append the mark, in the same transaction; 7
commit.

A batch has a mark for each task of one call, removed when the call ends (`marks` has the order, so that an
attempt which resumes later writes nothing). A streaming query has one mark, with the last micro-batch in it,
and brings each micro-batch into one task: a micro-batch that Spark repeats after a restart may be split into
other tasks, and marks of tasks would then lose rows. That mark stays, so step 2 and the check for an open
call are not needed there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyspark.sql.types as spark
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.clock import Clock, SystemClock
from tidegate.config.config import Config, load_config
from tidegate.connect.typed_records import encoded
from tidegate.errors import ConfigError, LogError
from tidegate.log.ensure import ensure_topic
from tidegate.log.faultpoints import reach
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.route import Router
from tidegate.spark.marks import (
    MARKS,
    MARKS_TOPIC,
    Mark,
    call_ended,
    close_call,
    is_open,
    open_call,
    put_marks,
    read_marks,
    row_of,
    writer_id,
)
from tidegate.spark.session import check_session
from tidegate.spark.spark_types import converted, misfit, part_of
from tidegate.spark.spool import Spool
from tidegate.spark.topic_source import HEADERS, Shipped, resolved_location, shipped
from tidegate.topics import TableTopic, Topic
from tidegate.types import TopicPartition

POSITION_COLUMNS = ("partition", "offset")
SENT_BYTES_PER_SECOND = 1 << 20
"""A transaction may stay open for the time that it takes to send the kept records at this pace, which is
slow."""
_log = logging.getLogger("tidegate")


def write_topic(
    frame: DataFrame,
    topic: Topic[Any, Any] | TableTopic[Any, Any],
    *,
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    log: str | None = None,
    config: Config | None = None,
) -> StreamingQuery | None:
    """Write the rows of a frame to a topic: columns key, value, and if there are such timestamp and headers.

        tidegate.write_topic(read_topic(spark, TOTALS), COPY)

    The key chooses the partition, as all producers do it; `partition` and `offset` of a frame that was read
    are ignored, and any other column is refused. Types are those of `read_topic`. A topic that
    does not exist is created as it is declared. The event time is what `timestamp=` of the topic finds, else
    the column, else now.

    A batch frame is written on return. Each Spark task is one transaction, and a task that Spark runs again
    writes nothing twice, nor does one that resumes after the call has ended. The call as a whole
    is not one transaction: when it fails, some tasks may have written, and calling it again writes their rows
    again.

    For a streaming frame the running query is returned. Each micro-batch is one transaction by one task, and
    is written exactly once as long as the query keeps its `checkpoint` (without one, a new start writes
    everything again) and the log keeps the topic `tidegate-frame-writes`. `trigger` is Spark's, such as
    {"availableNow": True}.

    Rows of one task keep their order. Rows of several tasks come in any order, so rows of one key should lie
    in one task, as they do in a frame that was read from a topic.
    """
    session = frame.sparkSession
    check_session(session)
    location = resolved_location(log, config)
    spec = shipped(topic, location)
    chosen = written_columns(frame, spec)
    with closing(open_log(location)) as opened:
        ensure_topic(
            opened,
            topic.name,
            table=spec.table,
            partitions=topic.partitions,
            default=(config or load_config({"log": log})).partitions,
            config=topic.config,
        )
        opened.create(MARKS_TOPIC)
    if frame.isStreaming:
        return _start(chosen, spec.as_text(), topic.name, checkpoint, trigger)
    if checkpoint is not None or trigger is not None:
        raise ConfigError("not-streaming", "a batch frame has no checkpoint and no trigger", "leave them out")
    _write_batch(chosen, spec)
    return None


def written_columns(frame: DataFrame, spec: Shipped, *, positions: bool = False) -> DataFrame:
    """Return the columns to write, with `positions` also those of the source position. Raises for missing,
    unknown and mistyped columns."""
    expected: dict[str, spark.DataType] = {
        "key": part_of(spec.key).type,
        "value": part_of(spec.value).type,
        "timestamp": spark.TimestampType(),
        "headers": HEADERS,
    }
    if positions:
        expected |= {"partition": spark.IntegerType(), "offset": spark.LongType()}
    found = {field.name: field.dataType for field in frame.schema}
    lacking = [name for name in ("key", "value") if name not in found]
    beyond = [name for name in found if name not in expected and name not in POSITION_COLUMNS]
    why = ""
    if lacking:
        why = f"it has no column {lacking[0]}"
    elif beyond:
        why = f"column {beyond[0]} is not one of {', '.join(expected)}"
    else:
        misfits = (misfit(found[name], kind, name) for name, kind in expected.items() if name in found)
        why = next(filter(None, misfits), "")
    if why:
        raise ConfigError(
            "bad-frame", f"the frame cannot be written to {spec.topic!r}: {why}", "select only these columns"
        )
    return frame.select(*(name for name in expected if name in found))


def _write_batch(frame: DataFrame, spec: Shipped) -> None:
    owner, clock = uuid4().hex, SystemClock()
    with closing(spec.open()) as log:
        open_call(log, owner, clock.now())
    try:
        frame.mapInArrow(partial(_write_task, spec.as_text(), owner), "number long").collect()
    finally:
        try:
            with closing(spec.open()) as log:
                close_call(log, owner, clock.now())
        except LogError as error:
            # What is written is written exactly once, so a call that did its work does not fail here.
            _log.warning("the marks of a write to %r stay until a later call: %s", spec.topic, error)


def _start(
    frame: DataFrame,
    text: str,
    topic: str,
    checkpoint: str | Path | None,
    trigger: Mapping[str, Any] | None,
) -> StreamingQuery:
    started = threading.Event()
    running: list[StreamingQuery] = []

    def batch(rows: DataFrame, number: int) -> None:
        started.wait()
        write = partial(_write_micro_batch, text, str(running[0].id), number)
        rows.repartition(1).mapInArrow(write, "number long").collect()

    writer = frame.writeStream.foreachBatch(batch).queryName(f"write {topic} {uuid4().hex[:8]}")
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    if trigger is not None:
        writer = writer.trigger(**trigger)
    running.append(writer.start())
    started.set()
    return running[0]


def _write_task(text: str, owner: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one attempt of one task of a batch, on an executor."""
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    begun = Mark(owner, number, "begun", uuid4().hex)
    yield from _write(text, writer_id(owner, number), Mark(owner, number), 0, batches, begun)


def _write_micro_batch(
    text: str, query: str, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the one task of a micro-batch, on an executor."""
    yield from _write(text, f"tidegate.frames.{query}", Mark(query, 0), number, batches)


def _write(
    text: str,
    writer: str,
    mark: Mark,
    number: int,
    batches: Iterator[pa.RecordBatch],
    begun: Mark | None = None,
) -> Iterator[pa.RecordBatch]:
    """Write rows by the steps above; `number` marks them and only rises."""
    filled = (batch for batch in batches if batch.num_rows)
    reach("frames.1")
    first = next(filled, None)
    if first is None:
        return
    spec, clock = Shipped.of_text(text), SystemClock()
    with closing(spec.open()) as log, Spool() as spool:
        _spool_rows(spec, log, chain([first], filled), spool)
        reach("frames.2")
        if begun is not None:
            put_marks(log, [row_of(begun, b"", clock.now())])
        reach("frames.3")
        patience = spool.bytes / SENT_BYTES_PER_SECOND
        with closing(log.writer(writer, open_seconds=patience)) as opened:
            reach("frames.4")
            if not _is_due(log, spec.topic, mark, number, begun):
                return
            reach("frames.5")
            for partition, batch in spool.batches():
                opened.append(partition, batch)
            opened.flush([])  # no offsets are needed: other tasks may append to these partitions
            reach("frames.6")
            rows = [row_of(mark, str(number).encode(), clock.now())]
            if begun is not None:
                rows.append(row_of(begun, None, clock.now()))
            opened.append(MARKS, to_batch(rows))
            reach("frames.7")
            opened.commit()
    yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["number"])


def _spool_rows(spec: Shipped, log: Log, batches: Iterable[pa.RecordBatch], spool: Spool) -> None:
    """Encode and keep all rows: step 1."""
    rows, info, router = FrameRows(spec, SystemClock()), log.describe(spec.topic), Router(log)
    for batch in batches:
        found: dict[TopicPartition, list[Row]] = {}
        for row in rows.records(batch):
            found.setdefault(router.route(info, row.key), []).append(row)
        for partition, records in found.items():
            spool.add(partition, to_batch(records))


def _is_due(log: Log, topic: str, mark: Mark, number: int, begun: Mark | None) -> bool:
    """Return whether the rows are to be written: step 4. An attempt that ends here removes its mark of step
    2."""
    marks = read_marks(log)
    open_now = begun is None or is_open(marks, mark.owner)
    written = mark in marks and int(marks[mark].value) >= number
    if open_now and not written:
        return True
    if begun is not None:
        put_marks(log, [row_of(begun, None, SystemClock().now())])
    if not open_now:
        raise call_ended(topic)
    return False


class FrameRows:
    """Rows of a frame as records."""

    def __init__(self, spec: Shipped, clock: Clock) -> None:
        self._topic = spec.declared()
        self._key, self._value = part_of(spec.key), part_of(spec.value)
        self._clock = clock

    def records(self, batch: pa.RecordBatch) -> list[Row]:
        """Return one record for each row, in order."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = converted(self._key.back, columns["key"].to_pylist())
        values = converted(self._value.back, columns["value"].to_pylist())
        times, headers = self._times(columns.get("timestamp"), len(keys)), columns.get("headers")
        pairs = [None] * len(keys) if headers is None else headers.to_pylist()
        found: list[Row] = []
        for key, value, time, own in zip(keys, values, times, pairs, strict=True):
            named = [(pair["name"], pair["value"]) for pair in own or ()]
            found += encoded(self._topic, key, (value,), time, named)
        return found

    def _times(self, column: Any, count: int) -> list[int]:
        now = self._clock.now()
        if column is None:
            return [now] * count
        millis = column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
        return [now if time is None else time for time in millis]
