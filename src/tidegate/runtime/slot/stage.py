"""A DataFrame stage: Spark code in the middle of a topology, exactly once.

A stage reads one internal topic and writes another, in batches. The rows that Spark made of a batch are
brought into one task, which does, in this order: 1 open the stage's writer, fencing an older run of the same
batch; 2 read the control topic to its end: a newer epoch ends it here; 3 read the position: at the start of
the batch it continues, past its end there is nothing to do, and anywhere else the batch is void; 4 append the
rows; 5 append time-only records for the tasks behind; 6 append the position; 7 commit.

Only the position records what was done. There is no checkpoint that could be lost.

In a replay a stage ends at the pinned ends of its topic, and a last order without records writes that it has
finished. The tasks that wrote to the topic ran one after the other, so stream time is that of the record's
own task: the strict tasks behind the stage sort by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc

from tidegate.clock import ManualClock
from tidegate.errors import FencedError, SerdeError
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.partitioner import partition_for
from tidegate.log.positions import Position, TaskId, check_positions, position_row, read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.log.reads import read_between
from tidegate.log.records import Row, to_batch
from tidegate.runtime.output.origin import origin_columns, origin_header
from tidegate.runtime.output.time_only import MARK
from tidegate.runtime.replay import REPLAYED
from tidegate.runtime.topics.control import read_control
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

RECORDS_PER_BATCH = 100_000
ROWS_AT_ONCE = 10_000
NO_TIME = -1


@dataclass(frozen=True, slots=True)
class StageReplay:
    """The round of a replay, and where the stage ends in each partition."""

    round: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of an app: `source` is the node whose topic it reads, `result` the node that writes."""

    name: str
    task: TaskId
    source: Node
    result: Node
    reads: str
    writes: str
    partitions: int
    replay: StageReplay | None = None

    def finished(self, position: Position) -> bool:
        """Return whether nothing is left to do: the position records that the round has finished. A live
        stage never finishes."""
        return self.replay is not None and position.progress.get(REPLAYED) == str(self.replay.round)


class StageOrder(msgspec.Struct, frozen=True):
    """One batch of a stage, as plain data: it goes to another process or host."""

    app: str
    name: str
    task: TaskId
    epoch: int
    role: str
    writer: str
    reads: str
    writes: str
    now: int
    spans: dict[int, tuple[int, int]]
    """The start and end offset of each partition that has records. None in the last order of a round."""
    round: int = 0
    """The round of a replay; 0: live."""

    @property
    def start(self) -> dict[int, int]:
        return {number: span[0] for number, span in self.spans.items()}

    @property
    def end(self) -> dict[int, int]:
        return {number: span[1] for number, span in self.spans.items()}


class Result(StrEnum):
    """The result of a batch."""

    WRITTEN = "written"
    BEFORE = "written before"
    VOID = "void"


class StageRow(NamedTuple):
    """A row of Spark's result, and the record that it came from if the stage kept its columns."""

    row: Row
    partition: int | None
    offset: int | None


def next_spans(log: Log, stage: Stage, position: Position) -> dict[int, tuple[int, int]]:
    """Return the offsets of the next batch: committed records after the position, up to a limit. In a replay
    up to the pinned ends."""
    at = position.sources[stage.reads]
    ends = _committed_ends(log, stage) if stage.replay is None else stage.replay.ends
    share = max(1, RECORDS_PER_BATCH // len(at))
    return {
        number: (offset, min(ends[number], offset + share))
        for number, offset in at.items()
        if ends[number] > offset
    }


def _committed_ends(log: Log, stage: Stage) -> dict[int, int]:
    partitions = [TopicPartition(stage.reads, number) for number in range(stage.partitions)]
    return {partition.partition: int(end) for partition, end in log.ends(partitions).items()}


def write_stage(
    log: Log, order: StageOrder, rows: Iterable[list[StageRow]], clock: ManualClock | None = None
) -> Result:
    """Write a batch, by the steps above. Raises FencedError if a newer driver runs the app. `clock` is the
    time of rows that have none; in a replay it is set to the stream time of the batch, before the first row
    is taken."""
    reach("stage.1")
    with closing(log.writer(order.writer)) as writer:
        reach("stage.2")
        newest = read_control(log, order.app).epoch(order.role)
        if newest > order.epoch:
            raise FencedError(order.writer, order.epoch, newest)
        reach("stage.3")
        positions = read_positions(log, order.app)
        check_positions(order.app, positions, [order.task])
        position = positions[order.task]
        at = position.sources[order.reads]
        if any(at[number] != start for number, start in order.start.items()):
            past = all(at[number] >= end for number, end in order.end.items())
            return Result.BEFORE if past else Result.VOID
        reach("stage.4")
        batch = _Batch(log, order, position)
        if order.round and clock is not None:
            clock.advance(batch.latest - clock.now())
        batch.append(writer, [row for part_rows in rows for row in part_rows])
        reach("stage.5")
        batch.send_time(writer)
        reach("stage.6")
        row = position_row(order.task, batch.position(), order.now)
        writer.append(TopicPartition(names.positions(order.app), 0), to_batch([row]))
        reach("stage.7")
        writer.commit()
        reach("stage.8")
    return Result.WRITTEN


class _Origin(NamedTuple):
    """The record that a row comes from: its stream time and, in a replay, which output of which task it was;
    its position."""

    time: int
    task: str
    sequence: int
    position: str


class _Batch:
    """The origins of a batch's records, and the rows that are written for them."""

    def __init__(self, log: Log, order: StageOrder, position: Position) -> None:
        self._order = order
        self._before = position
        self._count = log.describe(order.writes).partitions
        self._sequence = int(position.progress.get("sequence", "0"))
        self._times = dict(position.stream_times.get(order.reads, {}))
        self._known_before = max(self._times.values(), default=NO_TIME)
        self._origins = {
            number: self._read(log, number, start, end) for number, (start, end) in order.spans.items()
        }
        times = [origin.time for origins in self._origins.values() for origin in origins.values()]
        self.latest = max(times, default=0)
        """The stream time of the batch."""
        earliest = min(times, default=NO_TIME) if order.round else self._known_before
        self._unknown = _Origin(earliest, "", 0, "-")

    def append(self, writer: Writer, rows: Iterable[StageRow]) -> None:
        """Append rows in the order of stream time, which within a partition follows the offsets. Appending
        partition after partition would be faster, but the tasks behind would see stream time advance with the
        first partition and treat the records of the others as late. Rows of one record stay as they are."""
        timed = [(self._origin(partition, offset), row) for row, partition, offset in rows]
        timed.sort(key=lambda one: one[0][:3])
        found: dict[int, list[Row]] = {}
        for origin, row in timed:
            if row.key is None:
                raise SerdeError(
                    "null-key",
                    f"the stage {self._order.name!r} returned a row without a key",
                    "give every row a key, or filter those that have none",
                )
            headers = (*row.headers, self._numbered(origin.position, origin.time))
            target = partition_for(row.key, self._count)
            found.setdefault(target, []).append(Row(row.key, row.value, row.timestamp, headers))
        for number, part_rows in found.items():
            for at in range(0, len(part_rows), ROWS_AT_ONCE):
                part = to_batch(part_rows[at : at + ROWS_AT_ONCE])
                writer.append(TopicPartition(self._order.writes, number), part)

    def send_time(self, writer: Writer) -> None:
        """Append a time-only record to each partition: those that got no row must see the time advance
        too."""
        time = max(self._times.values(), default=NO_TIME)
        if time <= self._known_before:
            return
        for number in range(self._count):
            headers = (self._numbered("-", time), MARK)
            batch = to_batch([Row(None, None, time, headers)])
            writer.append(TopicPartition(self._order.writes, number), batch)

    def position(self) -> Position:
        order = self._order
        return msgspec.structs.replace(
            self._before,
            sources={order.reads: {**self._before.sources[order.reads], **order.end}},
            stream_times={order.reads: self._times},
            progress={"sequence": str(self._sequence), **self._finished()},
        )

    def _finished(self) -> dict[str, str]:
        order = self._order
        return {REPLAYED: str(order.round)} if order.round and not order.spans else {}

    def _numbered(self, position: str, time: int) -> tuple[str, bytes]:
        self._sequence += 1
        return origin_header(position, str(self._order.task), self._sequence, max(time, 0))

    def _origin(self, partition: int | None, offset: int | None) -> _Origin:
        """Return the origin of a row. For a row without the columns of its record only the time before the
        batch is known; in a replay the earliest one in it."""
        if partition is None or offset is None:
            return self._unknown
        return self._origins.get(partition, {}).get(offset, self._unknown)

    def _read(self, log: Log, number: int, start: int, end: int) -> Mapping[int, _Origin]:
        """Return the origin of each record, with the stream time after it: that of the partition, in a replay
        that of the task that wrote it."""
        partition = TopicPartition(self._order.reads, number)
        found: dict[int, _Origin] = {}
        for batch in read_between(log, partition, start, end):
            origins = origin_columns(partition, batch)
            reached = pc.cumulative_max(origins.times, start=self._times.get(number, NO_TIME)).to_pylist()
            times: list[Any] = [reached, repeat(""), repeat(0)]
            if self._order.round:
                times = [column.to_pylist() for column in (origins.times, origins.tasks, origins.sequences)]
            each = map(_Origin, *times, origins.positions.to_pylist())
            found |= zip(batch.column(0).to_pylist(), each, strict=True)
            self._times[number] = reached[-1]
        return found
