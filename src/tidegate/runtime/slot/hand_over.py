"""Hand records of internal topics over in memory, from the task that wrote them to the one that reads them.

Both tasks belong to the same slot, and the records are committed: this is step 8 of a commit. The task that
reads them gets exactly what its reader would return next, with the same offsets, and the reader continues
behind them. So whatever happens before or after, the log alone decides where a task continues: a crash, a
takeover or a task that moves loses and repeats nothing, since positions are those of processed records.

Records are left to the reader if it is not exactly at the first of them (another slot wrote in between, or
the reader has not caught up), or if the task has enough to do: what waits in memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from tidegate.log.protocol import Fetched, Reader
from tidegate.log.records import READ_SCHEMA
from tidegate.runtime.output.origin import TIMED_SCHEMA
from tidegate.runtime.task.task import StreamTask
from tidegate.topology.node import INTERNAL
from tidegate.types import Offset, TopicPartition


def handed_over(task: StreamTask) -> list[TopicPartition]:
    """Return the partitions whose records a task may get in memory. A strict task sorts its internal topics
    as a whole."""
    return [] if task.strict else task.partitions(INTERNAL)


def with_offsets(
    appended: Iterable[tuple[TopicPartition, pa.RecordBatch]], first: Mapping[TopicPartition, Offset]
) -> Iterator[Fetched]:
    """Yield records of one transaction as a reader would return them. `first` are the offsets where they
    begin; partitions of which that is not known are left out."""
    following: dict[TopicPartition, int] = dict(first)
    for partition, batch in appended:
        if partition in following and batch.num_rows:
            begin = following[partition]
            end = following[partition] = begin + batch.num_rows
            columns = [pa.arange(begin, end), *batch.columns]
            schema = READ_SCHEMA if len(columns) == len(READ_SCHEMA) else TIMED_SCHEMA
            yield Fetched(partition, pa.RecordBatch.from_arrays(columns, schema=schema), Offset(end))


def hand_over(
    written: Iterable[Fetched], reader: Reader, owners: Mapping[TopicPartition, StreamTask], most: int
) -> bool:
    """Feed committed records to the tasks that read them, unless more than `most` bytes wait there. Returns
    whether there were any."""
    found = list(written)
    readers = {owners[fetched.partition].id: owners[fetched.partition] for fetched in found}
    if sum(task.merge.buffered_bytes for task in readers.values()) > most:
        return False
    handed = False
    for fetched in found:
        partition, first = fetched.partition, fetched.next - fetched.batch.num_rows
        if reader.position(partition) == first:
            reader.seek(partition, fetched.next)
            owners[partition].feed(fetched)
            handed = True
    return handed
