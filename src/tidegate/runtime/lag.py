"""How many records the stream tasks of an app have before them."""

from __future__ import annotations

import msgspec

from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log
from tidegate.types import TopicPartition


class Lag(msgspec.Struct, frozen=True):
    """Of one task in one of its source partitions."""

    task: str
    topic: str
    partition: int
    position: int
    lag: int


def lag_of(log: Log, app: str) -> list[Lag]:
    """Of all tasks that ever committed."""
    at = {
        (str(task), TopicPartition(topic, number)): offset
        for task, position in sorted(read_positions(log, app).items())
        for topic, offsets in position.sources.items()
        for number, offset in offsets.items()
    }
    ends = log.ends({partition for _, partition in at})
    return [
        Lag(task, partition.topic, partition.partition, offset, max(0, int(ends[partition]) - offset))
        for (task, partition), offset in at.items()
    ]
