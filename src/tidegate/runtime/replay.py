"""The bounds of a replay beside the pinned ends of its topics: how far its clock goes, and what it did
before.

A replay may go on in rounds, each with higher pins. A strict task records in its position which round it has
finished: that its offsets are at the pins does not show that its timers were called.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate.types import TopicPartition

REPLAYED, FAILED = "replayed", "failed"
"""Entries of the progress in a position: the round of a replay that the task has finished, and how many
records were skipped or dead-lettered since its first start, also of a live task."""
SENT = "sent/"
"""How the entries of `sent_progress` begin."""


Ends = dict[TopicPartition, int]
EndsByTopic = dict[str, dict[int, int]]


def sent_progress(sent: Mapping[TopicPartition, int]) -> dict[str, str]:
    """Return the entries of the progress in a position for how many records a task of a replay has written to
    internal topics: their ends do not show it, since a block of records has one offset."""
    return {f"{SENT}{topic}/{number}": str(count) for (topic, number), count in sent.items()}


def sent_of(progress: Mapping[str, str]) -> Ends:
    """Return what `sent_progress` wrote."""
    found: Ends = {}
    for name, count in progress.items():
        if name.startswith(SENT):
            topic, _, number = name.removeprefix(SENT).rpartition("/")
            found[TopicPartition(topic, int(number))] = int(count)
    return found


class Cut(msgspec.Struct, frozen=True):
    """The end of a recalculation: an offset in each source, and the wall time."""

    ends: EndsByTopic
    wall: int
    own: dict[str, EndsByTopic] = {}
    """Ends of single subtopologies, by `component/number`, where they differ: two of them that read one
    topic need not be equally far."""

    def offsets(self) -> Ends:
        """Return the furthest end of each partition."""
        return _flat(self.ends)

    def offsets_of(self, component: str, subtopology: int) -> Ends:
        """Return the ends of one subtopology."""
        return self.offsets() | _flat(self.own.get(f"{component}/{subtopology}", {}))


def _flat(ends: EndsByTopic) -> Ends:
    return {
        TopicPartition(topic, partition): end
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    }


class Replay(msgspec.Struct, frozen=True):
    """One round of a replay."""

    wall: int
    """The wall time of the pins, in ms: wall-clock timers are called up to it."""
    round: int = 1
    wall_before: int = 0
    """The wall time of the previous round."""
    sorted_from: dict[str, dict[int, int]] = {}
    """The pins of the previous round in internal topics: what is below them was sorted and processed then."""

    def sorts_from(self, topic: str, partition: int) -> int:
        return self.sorted_from.get(topic, {}).get(partition, 0)
