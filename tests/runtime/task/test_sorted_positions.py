"""Positions of a strict task in a partition that it sorts: numbers of records, until it has finished."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Fetched
from tidegate.log.records import READ_SCHEMA, Row, to_batch
from tidegate.log.topic import TopicInfo
from tidegate.runtime.output.blocks import packed
from tidegate.runtime.output.origin import origin_header
from tidegate.runtime.replay import REPLAYED, Replay
from tidegate.runtime.task.merge import Merge
from tidegate.runtime.task.source_positions import SourcePositions
from tidegate.types import Offset, TopicPartition

PARTITION = TopicPartition("app-by-name-repartition", 0)
TASK = TaskId("by-name", 1, 1, 0)
START, PIN, RECORDS = 4, 6, 50
TOPICS = {PARTITION.topic: TopicInfo(PARTITION.topic, "uid", {}, (START,))}


def opened(offset: int, progress: dict[str, str]) -> tuple[SourcePositions, Merge]:
    """A task at this offset, in its second round, with everything fetched: 50 records in one block."""
    position = Position(sources={PARTITION.topic: {0: offset}}, progress=progress)
    at = SourcePositions(TASK, [PARTITION], position, {PARTITION: PIN})
    to_sort = at.to_sort([PARTITION.topic], TOPICS, Replay(wall=1, round=2))
    merge = Merge(at.next, {PARTITION: PIN}, to_sort)
    if to_sort:
        rows = [Row(b"k", b"%d" % n, n, (origin_header("in/0/1", "a/0_0", n, n),)) for n in range(RECORDS)]
        block = pa.concat_batches(list(packed(PARTITION, [to_batch(rows)], "a/0_0", 1 << 20)))
        offsets = pa.array([START], pa.int64())
        batch = pa.RecordBatch.from_arrays([offsets, *block.columns], schema=READ_SCHEMA)
        merge.feed(Fetched(PARTITION, batch, Offset(PIN)))
    return at, merge


def taken(at: SourcePositions, merge: Merge, most: int = RECORDS) -> int:
    batch = merge.take_batch(most)
    if batch is None:
        return 0
    at.next[PARTITION] = batch.column(0)[-1].as_py() + 1
    return len(batch)


def offset_of(position: Position) -> int:
    return position.sources[PARTITION.topic][0]


def test_a_task_that_is_opened_again_goes_on_behind_what_it_has_taken() -> None:
    at, merge = opened(START, {REPLAYED: "1"})
    assert taken(at, merge, 20) == 20
    position = at.position({}, {}, merge)
    assert offset_of(position) == START + 20 > PIN
    at, merge = opened(offset_of(position), {})
    assert taken(at, merge) == 30


def test_a_task_that_has_taken_all_and_has_timers_left_takes_nothing_again() -> None:
    at, merge = opened(START, {})
    assert taken(at, merge) == RECORDS
    assert merge.done()
    position = at.position({}, {}, merge)
    at, merge = opened(offset_of(position), {})
    assert taken(at, merge) == 0
    assert merge.done()
    assert at.short_of_pins()


def test_a_task_that_has_finished_is_at_its_pin_and_reads_nothing() -> None:
    at, merge = opened(START, {})
    assert taken(at, merge) == RECORDS
    position = at.position({}, {REPLAYED: "2"}, merge)
    assert offset_of(position) == PIN
    at.committed(position)
    assert not at.short_of_pins()
    at, merge = opened(PIN, {REPLAYED: "2"})
    assert merge.done()
    assert merge.read_to(PARTITION) == PIN
    assert not at.short_of_pins()


@pytest.mark.parametrize("progress", [{}, {REPLAYED: "1"}])
def test_a_task_that_has_not_begun_the_round_takes_everything(progress: dict[str, str]) -> None:
    at, merge = opened(START, progress)
    assert taken(at, merge) == RECORDS
