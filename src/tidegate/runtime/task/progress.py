"""The progress of a task in its source partitions, and its work since the last commit."""

from __future__ import annotations

from tidegate.log.records import RawRecord
from tidegate.runtime.task.source_positions import SourcePositions
from tidegate.types import TopicPartition


class TaskProgress:
    """Empty until the task starts."""

    def __init__(self) -> None:
        self.next: dict[TopicPartition, int] = {}
        """The next offset to process of each source partition."""
        self.times: dict[TopicPartition, int] = {}
        """The stream time of each source partition."""
        self.taken = 0
        """Records processed since the last commit."""
        self.moved = False
        """Whether anything happened since the last commit: a record, a timer or a gate."""

    def start(self, at: SourcePositions) -> None:
        self.next, self.times = at.next, at.times

    def passed(self, raw: RawRecord) -> None:
        """Advance past a processed record."""
        self.next[raw.partition] = raw.offset + 1
        self.taken += 1
        self.moved = True

    def passed_batch(self, partition: TopicPartition, last: int, count: int, stream_time: int) -> None:
        """Advance past a processed batch, whose last offset is `last`."""
        self.next[partition], self.times[partition] = last + 1, stream_time
        self.taken += count
        self.moved = True

    def committed(self) -> None:
        self.taken, self.moved = 0, False
