"""In which order a task takes records, whenever and however they were fetched."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.log.protocol import Fetched
from tidegate.log.records import READ_SCHEMA, RawRecord, Row, to_batch
from tidegate.runtime.task.merge import Merge
from tidegate.types import Offset, TopicPartition

Place = tuple[str, int, int]
"""Topic, offset and time of a record."""

TOPICS = ("a", "b", "c")
MANY = settings(max_examples=60, deadline=None)


@st.composite
def histories(draw: st.DrawFn) -> dict[TopicPartition, list[tuple[int, int]]]:
    """(offset, time) of the records of each partition; offsets have gaps, times go back and forth."""
    found = {}
    for topic in draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True)):
        gaps = draw(st.lists(st.integers(1, 3), max_size=6))
        offsets = [sum(gaps[: number + 1]) - 1 for number in range(len(gaps))]
        found[TopicPartition(topic, 0)] = [(offset, draw(st.integers(0, 5))) for offset in offsets]
    return found


def fetched(partition: TopicPartition, records: Sequence[tuple[int, int]], behind: int) -> Fetched:
    made = to_batch([Row(b"k", b"v", time) for _, time in records])
    offsets = pa.array([offset for offset, _ in records], pa.int64())
    batch = pa.RecordBatch.from_arrays([offsets, *made.columns], schema=READ_SCHEMA)
    return Fetched(partition, batch, Offset(behind))


def ends_of(history: dict[TopicPartition, list[tuple[int, int]]]) -> dict[TopicPartition, int]:
    return {partition: (records[-1][0] + 1 if records else 0) for partition, records in history.items()}


def place(record: RawRecord) -> Place:
    return record.partition.topic, record.offset, record.timestamp


def taken_at_once(history: dict[TopicPartition, list[tuple[int, int]]]) -> list[Place]:
    """The order by definition: always the smallest head by (time, topic, offset)."""
    left = {partition.topic: list(records) for partition, records in history.items()}
    order: list[Place] = []
    while any(left.values()):
        _, topic, offset = min(
            (records[0][1], topic, records[0][0]) for topic, records in left.items() if records
        )
        order.append((topic, offset, left[topic].pop(0)[1]))
    return order


def drain(merge: Merge, most: int) -> list[Place]:
    found: list[Place] = []
    while len(found) < most and (record := merge.take()) is not None:
        found.append(place(record))
    return found


@MANY
@given(history=histories(), seed=st.integers(0, 10**6))
def test_strict_order_depends_on_the_records_alone(
    history: dict[TopicPartition, list[tuple[int, int]]], seed: int
) -> None:
    """Whatever the order of partitions, the sizes of batches and the moments of fetching."""
    rng = Random(seed)
    partitions = rng.sample(list(history), len(history))
    ends = ends_of(history)
    merge = Merge(dict.fromkeys(partitions, 0), ends)
    left = {partition: list(history[partition]) for partition in partitions}
    order: list[Place] = []
    while not merge.done():
        partition = rng.choice(partitions)
        size = rng.randint(0, 3)
        batch, left[partition] = left[partition][:size], left[partition][size:]
        # What comes behind the pinned end is fetched too, and must not count.
        late = [(ends[partition] + 5, 0)] if not left[partition] and rng.random() < 0.5 else []
        behind = (left[partition][0][0] if left[partition] else ends[partition]) + (6 if late else 0)
        if batch or not left[partition]:
            merge.feed(fetched(partition, [*batch, *late], behind))
        merge.ended(rng.sample(partitions, rng.randint(0, len(partitions))))
        order += drain(merge, rng.randint(0, 4))
    assert order == taken_at_once(history)


@MANY
@given(history=histories(), seed=st.integers(0, 10**6))
def test_live_never_takes_a_record_before_an_older_head_and_waits_for_partitions_it_knows_nothing_of(
    history: dict[TopicPartition, list[tuple[int, int]]], seed: int
) -> None:
    rng = Random(seed)
    partitions = list(history)
    merge = Merge(dict.fromkeys(partitions, 0), None)
    left = {partition: list(records) for partition, records in history.items()}
    heads: dict[TopicPartition, list[tuple[int, int]]] = {partition: [] for partition in partitions}
    ended: set[TopicPartition] = set()
    count = 0
    for _ in range(200):
        partition = rng.choice(partitions)
        size = rng.randint(1, 3)
        batch, left[partition] = left[partition][:size], left[partition][size:]
        if batch:
            merge.feed(fetched(partition, batch, batch[-1][0] + 1))
            heads[partition] += batch
        ended = {one for one in partitions if not left[one] and rng.random() < 0.8}
        merge.ended(ended)
        assert merge.needs_records() == any(not heads[one] and one not in ended for one in partitions)
        assert merge.buffered == sum(len(records) for records in heads.values())
        for _ in range(rng.randint(0, 3)):
            record = merge.take()
            if any(not heads[one] and one not in ended for one in partitions):
                assert record is None
                break
            if not any(heads.values()):
                assert record is None
                break
            assert record is not None
            oldest = min((heads[one][0][1], one.topic, heads[one][0][0]) for one in partitions if heads[one])
            assert (record.timestamp, record.partition.topic, record.offset) == oldest
            heads[record.partition].pop(0)
            count += 1
    merge.ended(partitions)
    for partition in partitions:
        if left[partition]:
            merge.feed(fetched(partition, left[partition], left[partition][-1][0] + 1))
    merge.ended(partitions)
    assert count + len(drain(merge, 1000)) == sum(len(records) for records in history.values())


def test_a_partition_that_got_new_records_is_not_at_its_end() -> None:
    one, two = TopicPartition("a", 0), TopicPartition("b", 0)
    merge = Merge({one: 0, two: 0}, None)
    merge.feed(fetched(one, [(0, 5)], 1))
    merge.ended([two])
    merge.feed(fetched(two, [(0, 3)], 1))
    assert [place(record)[0] for record in (merge.take(),) if record] == ["b"]
    assert merge.take() is None  # b was at its end before these records came: is it now?
    merge.ended([one, two])
    assert drain(merge, 9) == [("a", 0, 5)]


def test_a_strict_partition_with_a_hole_at_its_end_is_done_when_the_reader_has_passed_it() -> None:
    one = TopicPartition("a", 0)
    merge = Merge({one: 0}, {one: 10})
    merge.feed(fetched(one, [(0, 5)], 4))
    assert (merge.take() is not None, merge.done()) == (True, False)
    merge.feed(fetched(one, [], 12))
    assert (merge.take(), merge.done(), merge.read_to(one)) == (None, True, 12)


def test_a_strict_partition_that_begins_at_its_end_is_done_at_once() -> None:
    one = TopicPartition("a", 0)
    assert Merge({one: 10}, {one: 10}).done()


def test_headers_keys_and_tombstones_come_through() -> None:
    one = TopicPartition("a", 0)
    merge = Merge({one: 0}, {one: 2})
    made = to_batch([Row(None, b"", 1), Row(b"k", None, 2, [("x", b"1"), ("x", None)])])
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1], pa.int64()), *made.columns], schema=READ_SCHEMA)
    merge.feed(Fetched(one, batch, Offset(2)))
    assert merge.take() == (one, 0, 1, None, b"", ())
    assert merge.take() == (one, 1, 2, b"k", None, (("x", b"1"), ("x", None)))


@MANY
@given(
    pages=st.lists(st.integers(1, 9), min_size=1, max_size=5), limits=st.lists(st.integers(1, 20), min_size=1)
)
def test_what_is_buffered_is_what_was_fetched_and_not_taken(pages: list[int], limits: list[int]) -> None:
    one = TopicPartition("a", 0)
    merge, fed, size = Merge({one: 0}, None), 0, 0
    for count in pages:
        page = fetched(one, [(fed + number, 0) for number in range(count)], fed + count)
        merge.feed(page)
        fed, size = fed + count, size + page.batch.nbytes
    assert (merge.buffered, merge.buffered_bytes) == (fed, size)
    each = size / fed
    while (batch := merge.take_batch(limits.pop() if limits else 20)) is not None:
        fed -= batch.num_rows
        assert merge.buffered == fed
        assert abs(merge.buffered_bytes - each * fed) <= 9 * each
    assert (merge.buffered, merge.buffered_bytes) == (fed, 0) == (0, 0)


def test_a_record_that_is_taken_alone_is_no_longer_buffered() -> None:
    one = TopicPartition("a", 0)
    merge = Merge({one: 0}, None)
    merge.feed(fetched(one, [(number, 0) for number in range(3)], 3))
    for left in (2, 1, 0):
        assert merge.take() is not None
        assert (merge.buffered, merge.buffered_bytes) == (left, 0)  # the batch was split into records
