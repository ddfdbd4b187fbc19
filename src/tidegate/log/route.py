"""Choose the partition of a record."""

from __future__ import annotations

from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.topic import TopicInfo
from tidegate.types import TopicPartition


class Router:
    """Chooses the partition by the key's bytes, as Kafka does; records without a key are sent round-robin.

    The round-robin starts at the number of records in the topic, so that one-shot senders spread too.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._sent_counts: dict[str, int] = {}

    def route(self, info: TopicInfo, key: bytes | None, requested: int | None = None) -> TopicPartition:
        """Return the requested partition, else the key's, else the next one round-robin."""
        if requested is not None:
            return TopicPartition(info.name, requested)
        if key is not None:
            return TopicPartition(info.name, partition_for(key, info.partitions))
        count = self._sent_counts.get(info.uid)
        if count is None:
            count = sum(self._log.ends(partitions_of(info)).values())
        self._sent_counts[info.uid] = count + 1
        return TopicPartition(info.name, count % info.partitions)


def partitions_of(info: TopicInfo) -> list[TopicPartition]:
    """Return all partitions of a topic."""
    return [TopicPartition(info.name, number) for number in range(info.partitions)]
