"""Rows on their way to staging: the newest of each key, in the partition that the live topic has for it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.log.topic import TopicInfo
from tidegate.runtime.output import outputs
from tidegate.runtime.output.outputs import TaskOutputs
from tidegate.runtime.output.staged_rows import split_key

TASK = b"totals/0_1"
KEYS = [b"k%d" % number for number in range(12)]
Written = list[tuple[bytes, int]]


def staged(batches: list[Written], single: Written, partitions: int) -> dict[int, dict[bytes, bytes]]:
    """What is written for rows that were added as batches, with single ones between them."""
    task = TaskOutputs(0)
    info = TopicInfo("staging", "uid", {"cleanup.policy": "compact"}, (0,) * partitions)
    target = task.target(info, staged=TASK)
    left = list(single)
    for rows in batches:
        task.add_batch(target, to_batch(Row(key, b"%d" % value, 5) for key, value in rows), 10)
        if left:
            key, value = left.pop(0)
            task.add(target, key, b"%d" % value, 5, (), 10)
    task.begin_record()
    task.add(target, KEYS[0], b"of a record that failed", 5, (), 10)
    task.roll_back()
    found: dict[int, dict[bytes, bytes]] = {}
    for partition, batch in task.batches():
        read = pa.RecordBatch.from_arrays(
            [pa.arange(0, batch.num_rows), *batch.columns], names=["offset", *batch.schema.names]
        )
        for row in rows_of(read):
            assert row.key is not None and row.value is not None  # noqa: PT018
            of_task, key = split_key(row.key)
            assert of_task == TASK
            assert key not in found.setdefault(partition.partition, {})
            found[partition.partition][key] = row.value
    return found


ROWS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 99)), min_size=1, max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, min_size=1, max_size=4), ROWS, st.sampled_from([1, 3]), st.booleans())
def test_the_newest_row_of_each_key_in_its_partition(
    monkeypatch: pytest.MonkeyPatch, batches: list[Written], single: Written, partitions: int, large: bool
) -> None:
    """Also if there are too many bytes to be joined at once."""
    expected: dict[int, dict[bytes, bytes]] = {}
    left = list(single)
    for rows in batches:
        for key, value in [*rows, *left[:1]]:
            expected.setdefault(partition_for(key, partitions), {})[key] = b"%d" % value
        left = left[1:]
    with monkeypatch.context() as patched:
        if large:
            patched.setattr(outputs, "JOINED_BYTES", 0)
        assert staged(batches, single, partitions) == expected
