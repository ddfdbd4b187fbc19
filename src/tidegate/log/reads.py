"""Reads that every log can do with its reader: bounded, to the end, and the fold of a table."""

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
LOOK_SECONDS = 2.0


def read_between(
    log: Log, partition: TopicPartition, start: int, end: int, *, patience: float = PATIENCE_SECONDS
) -> Iterator[pa.RecordBatch]:
    """The records from `start` to below `end`, in order.

    Waits while the committed end has not reached `end`: an acknowledged commit may show a moment later, and
    an open transaction in front hides what lies behind it. LogError `end-not-reached` after `patience`
    seconds in which nothing came.
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
                    f"{partition} can be read to {reader.position(partition)}, awaited was {end}",
                    "an open transaction may stand in front of it; try again",
                    retryable=True,
                )


def nothing_between(log: Log, partition: TopicPartition, start: int, end: int) -> bool:
    """Whether a committed reader finds no record there; False also where it cannot be known soon."""
    try:
        found = read_between(log, partition, start, end, patience=LOOK_SECONDS)
        return not any(batch.num_rows for batch in found)
    except LogError as error:
        if error.code != "end-not-reached":
            raise
        return False


def read_to_end(
    log: Log, positions: Mapping[TopicPartition, Offset], *, patience: float = PATIENCE_SECONDS
) -> Iterator[Fetched]:
    """Everything committed, up to an end that is taken *uncommitted*.

    For topics that decide who goes on (positions, control, status, trigger): first open the writer, then
    call this. A committed end alone may lie before records that are committed already, behind another
    writer's open transaction; going on from there would repeat what was done.
    """
    ends = log.ends(positions, committed=False)
    for partition, start in positions.items():
        with closing(log.reader({partition: start})) as reader:
            deadline = time.monotonic() + patience
            while reader.position(partition) < ends[partition]:
                fetched = reader.poll(POLL_SECONDS)
                if not fetched and time.monotonic() > deadline:
                    raise LogError(
                        "end-not-reached",
                        f"{partition} can be read to {reader.position(partition)} of {ends[partition]}",
                        "an open transaction stands in front of it and does not end; try again",
                        retryable=True,
                    )
                yield from fetched
                if fetched:
                    deadline = time.monotonic() + patience


def fold(log: Log, partition: TopicPartition, at: int | None = None) -> dict[bytes, tuple[bytes, int]]:
    """The rows of a table partition at an offset (its committed end without one): key -> (value, timestamp).

    What compaction has dropped below `at` because of a newer record above it is gone: exact at the end,
    and at any offset above what was compacted.
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
