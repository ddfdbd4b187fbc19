"""Rows of a DataFrame become records of a topic.

Spark may run a task twice: when the first run was cut off after it had committed, its rows would be written
again. So each task does, in this order: 1 open its writer, which fences an older run of the same task;
2 read the marks, which lie in a topic of their own, to the end; 3 if its mark is there, end; 4 append the
rows; 5 append the mark, in the same transaction; 6 commit.

A batch has a mark for each task of one call, taken away when the call ends. A streaming query has one mark,
with the last micro-batch in it, and brings each micro-batch into one task: a micro-batch that Spark repeats
after a restart may be cut into tasks in another way, and marks of tasks would then lose rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyspark.sql.types as spark
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.clock import Clock, SystemClock
from tidegate.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.log.ensure import ensure_topic
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.route import Router
from tidegate.log.topic import TopicSpec
from tidegate.spark.session import check_session
from tidegate.spark.spark_types import misfit, part_of, turned
from tidegate.spark.topic_source import HEADERS, Shipped, settled, shipped
from tidegate.topics import TableTopic, Topic
from tidegate.typed_records import encoded
from tidegate.types import Offset, TopicPartition

MARKS = TopicPartition("tidegate-frame-writes", 0)
MARKS_TOPIC = TopicSpec(MARKS.topic, 1, {"cleanup.policy": "compact"})
PLACE = ("partition", "offset")


class Mark(msgspec.Struct, frozen=True):
    """Whose mark it is, and which part of the work it stands for."""

    owner: str
    number: int


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
    are left aside, and any other column is refused. Types are those that `read_topic` gives. A topic that
    does not exist is created as it is declared. The event time is what `timestamp=` of the topic finds, else
    the column, else now.

    A batch frame is written on return. Each Spark task is one transaction, and a task that Spark runs again
    writes nothing twice. The call as a whole is not one transaction: when it fails, some tasks may have
    written, and calling it again writes their rows again.

    A streaming frame gives its running query. Each micro-batch is one transaction by one task, and is written
    exactly once as long as the query keeps its `checkpoint` (without one, a new start begins anew and writes
    again) and the log keeps the topic `tidegate-frame-writes`. `trigger` is Spark's: {"availableNow": True}.

    Rows of one task keep their order. Rows of several tasks come in any order, so rows of one key should lie
    in one task, as they do in a frame that was read from a topic.
    """
    session = frame.sparkSession
    check_session(session)
    place = settled(log, config)
    spec = shipped(topic, place)
    chosen = written_columns(frame, spec)
    with closing(open_log(place)) as opened:
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


def written_columns(frame: DataFrame, spec: Shipped, *, place: bool = False) -> DataFrame:
    """The columns that are written, with `place` those that say where a row comes from too; or an error by
    name."""
    expected: dict[str, spark.DataType] = {
        "key": part_of(spec.key).type,
        "value": part_of(spec.value).type,
        "timestamp": spark.TimestampType(),
        "headers": HEADERS,
    }
    if place:
        expected |= {"partition": spark.IntegerType(), "offset": spark.LongType()}
    found = {field.name: field.dataType for field in frame.schema}
    lacking = [name for name in ("key", "value") if name not in found]
    beyond = [name for name in found if name not in expected and name not in PLACE]
    why = ""
    if lacking:
        why = f"it has no column {lacking[0]}"
    elif beyond:
        why = f"column {beyond[0]} is none of {', '.join(expected)}"
    else:
        misfits = (misfit(found[name], kind, name) for name, kind in expected.items() if name in found)
        why = next(filter(None, misfits), "")
    if why:
        raise ConfigError(
            "bad-frame", f"the frame cannot be written to {spec.topic!r}: {why}", "select what is written"
        )
    return frame.select(*(name for name in expected if name in found))


def _write_batch(frame: DataFrame, spec: Shipped) -> None:
    owner = uuid4().hex
    try:
        frame.mapInArrow(partial(_write_task, spec.as_text(), owner), "number long").collect()
    finally:
        # Whatever Spark has cut into tasks: marks are few, and those of this call are no longer asked for.
        with closing(spec.open()) as log:
            mine = [key for key in _marks(log) if key.owner == owner]
            if mine:
                now = SystemClock().now()
                log.append(MARKS, to_batch([Row(msgspec.json.encode(key), None, now) for key in mine]))


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
    """On the executor: one task of a batch."""
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    yield from _write(text, f"{owner}.{number}", Mark(owner, number), 0, batches)


def _write_micro_batch(
    text: str, query: str, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On the executor: the one task of a micro-batch."""
    yield from _write(text, query, Mark(query, 0), number, batches)


def _write(
    text: str, writer_id: str, mark: Mark, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The steps above, for rows that are marked by a number that rises."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    spec = Shipped.of_text(text)
    with closing(spec.open()) as log, closing(log.writer(f"tidegate.frames.{writer_id}")) as writer:
        if _marks(log).get(mark, -1) >= number:
            return
        rows, info, router = FrameRows(spec, SystemClock()), log.describe(spec.topic), Router(log)
        for batch in chain([first], batches):
            found: dict[TopicPartition, list[Row]] = {}
            for row in rows.records(batch):
                found.setdefault(router.route(info, row.key), []).append(row)
            for partition, records in found.items():
                writer.append(partition, to_batch(records))
        now = SystemClock().now()
        writer.append(MARKS, to_batch([Row(msgspec.json.encode(mark), str(number).encode(), now)]))
        writer.commit()
    yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["number"])


class FrameRows:
    """Rows of a frame as records."""

    def __init__(self, spec: Shipped, clock: Clock) -> None:
        self._topic = spec.declared()
        self._key, self._value = part_of(spec.key), part_of(spec.value)
        self._clock = clock

    def records(self, batch: pa.RecordBatch) -> list[Row]:
        """One for each row, in their order."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = turned(self._key.back, columns["key"].to_pylist())
        values = turned(self._value.back, columns["value"].to_pylist())
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


def _marks(log: Log) -> dict[Mark, int]:
    """The marks of all that is committed: open your writer first, as `read_to_end` says."""
    found: dict[Mark, int] = {}
    start = Offset(log.describe(MARKS.topic).starts[0])
    for fetched in read_to_end(log, {MARKS: start}):
        keys, values = fetched.batch.column(2).to_pylist(), fetched.batch.column(3).to_pylist()
        for key, value in zip(keys, values, strict=True):
            mark = msgspec.json.decode(key, type=Mark)
            found.pop(mark, None)
            if value is not None:
                found[mark] = int(value)
    return found
