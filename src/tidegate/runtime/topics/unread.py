"""What the tasks of an app have not read of its internal topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.log.ensure import find_topic
from tidegate.log.names import positions as positions_name
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import nothing_between
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Unread:
    """Records of an internal topic that no task has processed: from the position up to the end."""

    topic: str
    partition: int
    position: int
    end: int


def task_positions(log: Log, manifest: Manifest) -> dict[TaskId, Position]:
    """Return the positions of the tasks of a manifest, those of DataFrame stages included; none before the
    first plan."""
    if find_topic(log, positions_name(manifest.app)) is None:
        return {}
    known = manifest.components
    return {
        task: position
        for task, position in read_positions(log, manifest.app).items()
        if task.component in known and task.generation == known[task.component].generation
    }


def offsets_of(positions: Mapping[TaskId, Position]) -> list[tuple[TopicPartition, int]]:
    """Return the next offset of each task in each of its source partitions."""
    return [
        (TopicPartition(topic, partition), offset)
        for position in positions.values()
        for topic, offsets in position.sources.items()
        for partition, offset in offsets.items()
    ]


def unread(
    log: Log, manifest: Manifest, positions: Mapping[TaskId, Position], topics: Iterable[str]
) -> list[Unread]:
    """Return what is left in these internal topics. Offsets that hold no records do not count.

    The ends are read after the positions: a position is committed together with its outputs, so whatever a
    task wrote up to its position is included in the ends.
    """
    counts = {topic: manifest.internal_partitions[name] for name, topic in manifest.internal.items()}
    at = {TopicPartition(topic, number): 0 for topic in topics for number in range(counts[topic])}
    for partition, offset in offsets_of(positions):
        if partition in at:
            at[partition] = offset
    ends = log.ends(at) if at else {}
    return [
        Unread(partition.topic, partition.partition, offset, int(ends[partition]))
        for partition, offset in at.items()
        if not nothing_between(log, partition, offset, ends[partition])
    ]
