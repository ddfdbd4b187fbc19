"""The lag of an app: the ends of its source partitions less the committed positions of its tasks. It is
computed from the log and not from what slots publish: a slot that died publishes nothing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition


class Lag(msgspec.Struct, frozen=True):
    """The lag of one task in one of its source partitions."""

    task: str
    """Empty for a partition that no task has begun to read."""
    topic: str
    partition: int
    position: int
    lag: int


def lag_of(log: Log, app: str) -> list[Lag]:
    """Return the lag of an app that was started at least once, running or not."""
    manifest = find_manifest(log, app)
    return [] if manifest is None else lags(log, manifest, read_positions(log, app))


def lags(log: Log, manifest: Manifest, positions: Mapping[TaskId, Position]) -> list[Lag]:
    """Return the lag of all tasks that have a position, and of source partitions that no task has read: there
    it is everything from the start."""
    at = {
        (str(task), TopicPartition(topic, number)): offset
        for task, position in sorted(positions.items())
        for topic, offsets in position.sources.items()
        for number, offset in offsets.items()
    }
    begun = {partition for _, partition in at}
    for topic in manifest.sources:
        if any(TopicPartition(topic, number) not in begun for number in range(manifest.sources[topic])):
            starts = enumerate(log.describe(topic).starts)
            at |= {("", one): start for n, start in starts if (one := TopicPartition(topic, n)) not in begun}
    ends = log.ends({partition for _, partition in at})
    return [
        Lag(task, partition.topic, partition.partition, offset, max(0, int(ends[partition]) - offset))
        for (task, partition), offset in at.items()
    ]
