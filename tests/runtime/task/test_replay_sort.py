"""The order of an internal partition for strict tasks: of the records alone, in memory or from disk."""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.records import READ_SCHEMA, Row, rows_of, to_batch
from tidegate.runtime.output.blocks import packed
from tidegate.runtime.output.numbered_origins import numbered, one_by_one, records_in
from tidegate.runtime.output.origin import origin_header, origin_of
from tidegate.runtime.task.replay_sort import SortedPartition
from tidegate.types import TopicPartition

pytestmark = pytest.mark.timeout(60)  # the loops of a merge: one that makes no progress shows soon

PARTITION = TopicPartition("app-by-name-repartition", 3)
START = 7


def written(producers: dict[str, list[int]], rng: Random) -> list[Row]:
    """What tasks wrote, each in its own order, mixed by chance: one row for each step of its stream time."""
    waiting = {}
    for task, steps in producers.items():
        times = [sum(steps[: number + 1]) for number in range(len(steps))]
        waiting[task] = [
            Row(
                b"k",
                f"{task} {number}".encode(),
                time,
                (origin_header(f"in/0/{number}", task, number, time),),
            )
            for number, time in enumerate(times)
        ]
    rows = []
    while any(waiting.values()):
        task = rng.choice([task for task, left in waiting.items() if left])
        rows.append(waiting[task].pop(0))
    return rows


def batches(rows: list[Row], rng: Random) -> list[pa.RecordBatch]:
    """As they are read: from the start on, in batches of any size."""
    made, at = [], 0
    while at < len(rows):
        size = rng.randint(1, 40)
        batch = to_batch(rows[at : at + size])
        offsets = pa.arange(START + at, START + at + batch.num_rows)
        made.append(pa.RecordBatch.from_arrays([offsets, *batch.columns], schema=READ_SCHEMA))
        at += size
    return made


def task_of(row: Row) -> str:
    origin = origin_of(row.headers)
    assert origin is not None
    return origin.task


def in_blocks(rows: list[Row], rng: Random) -> list[pa.RecordBatch]:
    """As they are read if tasks wrote some of them in blocks, at commits of any size."""
    made, end = [], START
    for task, group in groupby(rows, task_of):
        listed = list(group)
        while listed:
            some = [listed.pop(0) for _ in range(rng.randint(1, len(listed)))]
            outputs = to_batch(some)
            if rng.random() < 0.7:
                times, keys, values = outputs.columns[:3]
                first = origin_of(some[0].headers)
                assert first is not None
                at = int(first.position.rpartition("/")[2])
                sources = records_in(TopicPartition("in", 0), pa.arange(at, at + len(some)))
                outputs = numbered(times, keys, values, times, sources)
            for batch in packed(PARTITION, [outputs], task, 1 << 20):
                offsets = pa.arange(end, end + batch.num_rows)
                made.append(pa.RecordBatch.from_arrays([offsets, *batch.columns], schema=READ_SCHEMA))
                end += batch.num_rows
    return made


def in_order(rows: list[Row], rng: Random, *, position: int = START, piece_bytes: int = 1 << 20) -> list[Any]:
    partition = SortedPartition(PARTITION, START, position, piece_bytes)
    for batch in batches(rows, rng):
        partition.add(batch)
    found = list(partition.batches())
    offsets = [offset for batch in found for offset in batch.column(0).to_pylist()]
    assert offsets == list(range(position, START + len(rows)))
    return [row.value for batch in found for row in rows_of(batch)]


@given(
    st.dictionaries(st.sampled_from(["a/0_0", "a/0_1", "a/0_10"]), st.lists(st.integers(0, 3), max_size=50)),
    st.integers(),
    st.sampled_from([0, 3000, 1 << 20]),
    st.floats(0, 1),
)
def test_whoever_wrote_first_the_order_is_the_same(
    producers: dict[str, list[int]], seed: int, piece_bytes: int, taken: float
) -> None:
    rng = Random(seed)
    rows = written(producers, rng)
    keyed = [(sum(steps[: n + 1]), task, n) for task, steps in producers.items() for n in range(len(steps))]
    expected = [f"{task} {number}".encode() for _, task, number in sorted(keyed)]
    assert in_order(rows, rng, piece_bytes=piece_bytes) == expected
    skip = int(taken * len(rows))
    assert in_order(rows, rng, position=START + skip, piece_bytes=piece_bytes) == expected[skip:]


@given(
    st.dictionaries(st.sampled_from(["a/0_0", "a/0_1", "a/0_10"]), st.lists(st.integers(0, 3), max_size=50)),
    st.integers(),
    st.sampled_from([0, 3000, 1 << 20]),
)
def test_records_in_blocks_have_the_same_order_and_origins(
    producers: dict[str, list[int]], seed: int, piece_bytes: int
) -> None:
    rng = Random(seed)
    rows = written(producers, rng)
    partition = SortedPartition(PARTITION, START, START, piece_bytes)
    for batch in in_blocks(rows, rng):
        partition.add(batch)
    found = [raw for batch in partition.batches() for raw in one_by_one(PARTITION, batch)]
    keyed = sorted(
        (sum(steps[: n + 1]), task, n) for task, steps in producers.items() for n in range(len(steps))
    )
    assert [raw.value for raw in found] == [f"{task} {number}".encode() for _, task, number in keyed]
    origins = [origin_of(raw.headers) for raw in found]
    assert [(one.time, one.position) for one in origins if one is not None] == [
        (time, f"in/0/{number}") for time, _, number in keyed
    ]
    assert [raw.offset for raw in found] == list(range(START, START + len(rows)))


def test_a_record_without_origin_headers_is_its_own_origin() -> None:
    foreign = Row(b"k", b"foreign", 5, (("mine", b"x"),))
    ours = [Row(b"k", b"ours", 0, (origin_header("in/0/0", "a/0_0", 1, time),)) for time in (4, 6)]
    assert in_order([ours[0], ours[1], foreign], Random(1)) == [b"ours", b"foreign", b"ours"]


@pytest.mark.parametrize("piece_bytes", [0, 1 << 20])
def test_no_records_are_sorted_to_none(piece_bytes: int) -> None:
    assert in_order([], Random(1), piece_bytes=piece_bytes) == []
