"""Pending outputs: each record waits in the partition of its key, in order, whenever partitions are found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicInfo
from tidegate.runtime.output import outputs as module
from tidegate.runtime.output.outputs import TaskOutputs
from tidegate.types import TopicPartition

NOW = 1_700_000_000_000
OWN = 2
"""The partition of the task: that of records without a key."""
keys = st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=12))
adds = st.lists(keys, max_size=400)
moves = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["single", "failed", "batch", "failed batch"]), adds),
        st.tuples(st.just("settle"), st.just([])),
        st.tuples(st.just("to"), st.just([b"-"])),
    ),
    max_size=8,
)


def info(partitions: int) -> TopicInfo:
    return TopicInfo("out", "uid", {}, (0,) * partitions)


def oracle(partitions: int, played: list[tuple[str, list[Any]]]) -> dict[int, list[int]]:
    """The times of the records in each partition; times are unique and rise."""
    found: dict[int, list[int]] = {}
    at = NOW
    for move, added in played:
        for key in added:
            at += 1
            if move == "to":
                found.setdefault(0, []).append(at)
            elif not move.startswith("failed"):
                number = OWN % partitions if key is None else partition_for(key, partitions)
                found.setdefault(number, []).append(at)
    return found


@pytest.mark.parametrize("partitions", [1, 3])
@settings(max_examples=60, deadline=None)
@given(played=moves)
def test_records_wait_in_their_partitions_in_order(
    partitions: int, played: list[tuple[str, list[Any]]]
) -> None:
    outputs = TaskOutputs(OWN)
    target = outputs.target(info(partitions))
    at = NOW
    for move, added in played:
        if move.endswith("batch"):
            outputs.settle()  # as the task does before a batch, which may be rolled back
        outputs.begin_record()
        rows = []
        for key in added:
            at += 1
            if move == "to":
                outputs.add_to(target, 0, at, (), NOW)
            elif move.endswith("batch"):
                rows.append(Row(key, b"", at))
            else:
                outputs.add(target, key, b"", at, (), NOW)
        if rows:
            outputs.add_batch(target, to_batch(rows), NOW)
        if move.startswith("failed"):
            outputs.roll_back()
        if move == "settle":
            outputs.settle()
    written: dict[int, list[int]] = {}
    for partition, batch in outputs.batches():
        written.setdefault(partition.partition, []).extend(batch.column(0).to_pylist())
    assert written == oracle(partitions, played)
    outputs.clear()
    assert list(outputs.batches()) == []


def test_records_of_more_bytes_than_a_column_may_have_are_several_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "JOINED_BYTES", 1000)
    outputs = TaskOutputs(0)
    target = outputs.target(info(3))
    for number in range(100):
        outputs.add(target, b"k", b"x" * 99, NOW + number, (), NOW)
    sizes = [batch.num_rows for _, batch in outputs.batches()]
    assert sizes == [10] * 10


@pytest.mark.parametrize("key", ["text", bytearray(b"k")])
def test_a_key_that_is_not_bytes_fails_at_its_record(key: Any) -> None:
    outputs = TaskOutputs(0)
    with pytest.raises(TypeError, match="not bytes"):
        outputs.add(outputs.target(info(3)), key, b"", NOW, (), NOW)


def test_no_more_keys_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_KEYS", 1000)
    outputs = TaskOutputs(0)
    target = outputs.target(info(3))
    for start in range(0, 5000, 500):
        for number in range(start, start + 500):
            outputs.add(target, str(number).encode(), b"", NOW, (), NOW)
        outputs.add(target, None, b"", NOW, (), NOW)
        outputs.settle()
        assert len(target._partitions) <= 1000 + 501
    for partition, batch in outputs.batches():
        assert isinstance(partition, TopicPartition)
        for key in batch.column(1).to_pylist():
            assert partition.partition == (0 if key is None else partition_for(key, 3))
