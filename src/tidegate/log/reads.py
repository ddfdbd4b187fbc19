"""Reads that work on every log: bounded, to the end, and the fold of a table partition."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LogError
from tidegate.log.protocol import Fetched, Log
from tidegate.types import Offset, TopicPartition

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
SHORT_PATIENCE_SECONDS = 2.0


def read_between(
    log: Log, partition: TopicPartition, start: int, end: int, *, patience: float = PATIENCE_SECONDS
) -> Iterator[pa.RecordBatch]:
    """Yield the records from `start` to below `end`, in order.

    Waits while the committed end is below `end`: an acknowledged commit may become visible slightly later,
    and an open transaction hides the records after its first one. Raises LogError `end-not-reached` after
    `patience` seconds without a record.
    """
    if start >= end:
        return
    with closing(log.reader({partition: Offset(start)})) as reader:
        deadline = time.monotonic() + patience
        while reader.position(partition) < end:
            for fetched in reader.poll(POLL_SECONDS):
                batch = fetched.batch
                if fetched.next > end:
                    batch = batch.filter(pc.less(batch.column(0), pa.scalar(end, pa.int64())))
                if batch.num_rows:
                    yield batch
                deadline = time.monotonic() + patience
            if time.monotonic() > deadline:
                raise LogError(
                    "end-not-reached",
                    f"{partition} can be read up to offset {reader.position(partition)}, not up to {end}",
                    "an open transaction may hide the rest until it ends; try again",
                    retryable=True,
                )


def nothing_between(log: Log, partition: TopicPartition, start: int, end: int) -> bool:
    """Whether there is no committed record in this range; False also if that cannot be determined soon."""
    try:
        found = read_between(log, partition, start, end, patience=SHORT_PATIENCE_SECONDS)
        return not any(batch.num_rows for batch in found)
    except LogError as error:
        if error.code != "end-not-reached":
            raise
        return False


def read_to_end(
    log: Log, positions: Mapping[TopicPartition, Offset], *, patience: float = PATIENCE_SECONDS
) -> Iterator[Fetched]:
    """Yield every committed record up to the *uncommitted* end.

    For topics whose newest records decide where to continue (positions, control, status, trigger): open the
    writer first, then call this. The committed end may lie before records that are already committed, if
    another writer's open transaction precedes them; continuing from there would repeat work.
    """
    ends = log.ends(positions, committed=False)
    for partition, start in positions.items():
        if start >= ends[partition]:
            continue  # most topics of an app that starts are empty, and a reader on Kafka is a consumer
        with closing(log.reader({partition: start}, brief=True)) as reader:
            deadline = time.monotonic() + patience
            while reader.position(partition) < ends[partition]:
                fetched = reader.poll(POLL_SECONDS)
                if not fetched and time.monotonic() > deadline:
                    raise LogError(
                        "end-not-reached",
                        f"{partition} can be read up to offset {reader.position(partition)}, not up to"
                        f" {ends[partition]}",
                        "an open transaction hides the rest and does not end; try again",
                        retryable=True,
                    )
                yield from fetched
                if fetched:
                    deadline = time.monotonic() + patience


def fold(log: Log, partition: TopicPartition, at: int | None = None) -> dict[bytes, tuple[bytes, int]]:
    """Return the rows of a table partition at an offset (default: its committed end), as key -> (value,
    timestamp).

    Exact at the end and at any offset that compaction has not reached. Below that, a row is missing if
    compaction removed its record because of a newer one above `at`.
    """
    start = log.describe(partition.topic).starts[partition.partition]
    end = log.ends([partition])[partition] if at is None else at
    rows: dict[bytes, tuple[bytes, int]] = {}
    for batch in read_between(log, partition, start, end):
        columns = (batch.column(name).to_pylist() for name in ("key", "value", "timestamp"))
        for key, value, timestamp in zip(*columns, strict=True):
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = (value, timestamp)
    return rows
