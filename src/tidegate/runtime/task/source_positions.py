"""The positions of a task in its source partitions: the next offset and the stream time of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.errors import StateError
from tidegate.log.positions import Position, TaskId
from tidegate.log.topic import TopicInfo
from tidegate.runtime.replay import REPLAYED, Replay
from tidegate.runtime.task.merge import Merge
from tidegate.types import TopicPartition


class SourcePositions:
    """Starts at a committed position. With `pinned` ends the task is strict."""

    def __init__(
        self,
        task: TaskId,
        partitions: Iterable[TopicPartition],
        position: Position,
        pinned: Mapping[TopicPartition, int] | None,
    ) -> None:
        self._pinned = pinned
        self._recorded = position.progress.get(REPLAYED)
        self._sorted: set[TopicPartition] = set()
        self.next: dict[TopicPartition, int] = {}
        self.times: dict[TopicPartition, int] = {}
        for partition in partitions:
            topic, number = partition
            offset = position.sources.get(topic, {}).get(number)
            if offset is None:
                raise StateError(
                    "no-position",
                    f"the position of {task} has no offset for {partition}",
                    "first positions are written when the app starts; this is a bug: report it",
                )
            self.next[partition] = offset
            self.times[partition] = position.stream_times.get(topic, {}).get(number, -1)

    @property
    def stream_time(self) -> int:
        return max(self.times.values())

    def next_offsets(self, merge: Merge) -> dict[TopicPartition, int]:
        """Return the next offsets. Offsets after the last record may hold none, such as transaction markers:
        a task that has taken everything advances past them. A strict task follows the order of its
        records."""
        if self._pinned is None:
            for partition, taken in self.next.items():
                if not merge.buffered_in(partition):
                    self.next[partition] = max(taken, merge.read_to(partition))
        return self.next

    def short_of_pins(self) -> bool:
        """Return whether a strict task is not at its pins: when it is done, it moves there without
        records."""
        return self._pinned is not None and any(
            taken < self._pinned[partition] or (partition in self._sorted and taken > self._pinned[partition])
            for partition, taken in self.next.items()
        )

    def committed(self, position: Position) -> None:
        """Move a strict task to its committed position, once that has reached all its pins."""
        if self._pinned is not None:
            reached = {tp: position.sources[tp.topic][tp.partition] for tp in self.next}
            if all(reached[partition] >= self._pinned[partition] for partition in reached):
                self.next.update(reached)  # as long as it sorts, where it was already

    def to_sort(
        self, internal: Iterable[str], topics: Mapping[str, TopicInfo], replay: Replay | None = None
    ) -> dict[TopicPartition, int]:
        """Return the internal partitions of a strict task, with the offsets to sort from: the start, or the
        pin of an earlier round. A task that has finished this round has none."""
        if self._pinned is None or (replay is not None and self._recorded == str(replay.round)):
            return {}
        starts = {tp: topics[tp.topic].starts[tp.partition] for tp in self._of(internal)}
        self._sorted = set(starts) if replay is not None else set()
        return (
            starts if replay is None else {tp: max(at, replay.sorts_from(*tp)) for tp, at in starts.items()}
        )

    def purged(self, internal: Iterable[str]) -> list[TopicPartition]:
        """Return the internal partitions that are kept for this task alone. A strict task may have to sort
        again and needs them whole."""
        return [] if self._pinned is not None else self._of(internal)

    def position(self, changelogs: dict[str, int], progress: dict[str, str], merge: Merge) -> Position:
        """Return the position to commit. A strict task that is done is at its pinned ends, whatever the
        offsets of the last records. In partitions that it sorts it moves there when it has finished, and
        records that: until then its offsets are numbers in the sorted order."""
        ends = self._pinned if self._pinned is not None and merge.done() else {}
        finished = REPLAYED in progress
        sources: dict[str, dict[int, int]] = {}
        times: dict[str, dict[int, int]] = {}
        for partition, taken in self.next_offsets(merge).items():
            topic, number = partition
            at = max(taken, ends.get(partition, 0))
            if partition in self._sorted:
                at = ends.get(partition, taken) if finished else taken
            sources.setdefault(topic, {})[number] = at
            times.setdefault(topic, {})[number] = self.times[partition]
        return Position(sources=sources, stream_times=times, changelogs=changelogs, progress=progress)

    def _of(self, topics: Iterable[str]) -> list[TopicPartition]:
        names = set(topics)
        return [partition for partition in self.next if partition.topic in names]
