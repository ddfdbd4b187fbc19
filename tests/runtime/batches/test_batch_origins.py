"""The origins of a sorted batch in a replay: as numbers where all have them, else also from headers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate.log.records import header_column
from tidegate.log.topic import TopicInfo
from tidegate.runtime.batches.whole_batches import BatchOrigins
from tidegate.runtime.output.numbered_origins import NUMBERED_SCHEMA
from tidegate.runtime.output.origin import origin_header, origin_of
from tidegate.runtime.output.outputs import TaskOutputs
from tidegate.runtime.output.routes import Route
from tidegate.types import TopicPartition

PARTITION = TopicPartition("between", 0)
POSITIONS = ["in/0/5", "-", "in/1/7", "in/0/9"]


def sorted_batch() -> pa.RecordBatch:
    """Four records: the second one is the output of a timer, whose origin is in its headers."""
    source: Any = pa.array(["in/0/", None, "in/1/", "in/0/"]).dictionary_encode()
    columns = [
        pa.arange(0, 4),
        pa.array([10, 20, 30, 40]),
        pa.array([b"a", b"b", b"c", b"d"]),
        pa.array([b"1", b"2", b"3", b"4"]),
        header_column([(), (origin_header("-", "x/0_0", 3, 20),), (), ()]),
        pa.array([10, 20, 30, 40]),
        source,
        pa.array([5, None, 7, 9], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NUMBERED_SCHEMA)


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("rows", [None, [0], [2, 0], [1, 2]])
def test_headers_name_the_source_records_and_times(rows: list[int] | None, begin: int) -> None:
    batch = sorted_batch().slice(begin)
    origins = BatchOrigins(PARTITION, batch, batch.column(1), 0, internal=True)
    target = TaskOutputs(0).target(TopicInfo("staging", "uid", {}, (0,)), staged=b"y/0_0")
    listed = list(range(batch.num_rows)) if rows is None else rows
    taken = None if rows is None else pa.array(rows)
    made = origins.headers(taken, Route(target, (), origin=True), "y/0_0", pa.arange(1, 1 + len(listed)))
    found = [origin_of([(one["name"], one["value"]) for one in pairs]) for pairs in made.to_pylist()]
    assert [(one.position, one.task, one.time) for one in found if one is not None] == [
        (POSITIONS[begin + row], "y/0_0", 10 * (begin + row + 1)) for row in listed
    ]


def test_numbers_are_handed_on_if_all_rows_have_them() -> None:
    batch = sorted_batch()
    origins = BatchOrigins(PARTITION, batch, batch.column(1), 0, internal=True)
    found = origins.sources(pa.array([3, 2]))
    assert found is not None
    assert (found.source.to_pylist(), found.at.to_pylist()) == (["in/0/", "in/1/"], [9, 7])
    assert origins.sources(None) is None
