"""Read the rows of a table topic, each with its partition and offset."""

from __future__ import annotations

from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, rows_of
from tidegate.log.route import partitions_of
from tidegate.log.topic import TopicInfo
from tidegate.types import TopicPartition


def table_rows(log: Log, info: TopicInfo) -> dict[tuple[TopicPartition, bytes], ReadRow]:
    """Return the newest record of each key that is not deleted, at the current committed end.

    `fold` does the same for one partition with less memory; this keeps the offset, so that an error can name
    the record of a bad row.
    """
    partitions = partitions_of(info)
    ends = log.ends(partitions)
    newest: dict[tuple[TopicPartition, bytes], ReadRow] = {}
    for partition in partitions:
        for batch in read_between(log, partition, info.starts[partition.partition], ends[partition]):
            for row in rows_of(batch):
                key = (partition, row.key or b"")
                if row.value is None:
                    newest.pop(key, None)
                else:
                    newest[key] = row
    return newest
