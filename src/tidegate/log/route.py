"""Which partition a record goes to."""

from __future__ import annotations

from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.topic import TopicInfo
from tidegate.types import TopicPartition


class Router:
    """By the key's bytes, as Kafka does it; records without a key take turns.

    The turns start at the number of records that the topic has got, so that one-shot senders spread too.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turns: dict[str, int] = {}

    def route(self, info: TopicInfo, key: bytes | None, asked: int | None = None) -> TopicPartition:
        """The partition that was asked for, else the one of the key, else the next in turn."""
        if asked is not None:
            return TopicPartition(info.name, asked)
        if key is not None:
            return TopicPartition(info.name, partition_for(key, info.partitions))
        turn = self._turns.get(info.uid)
        if turn is None:
            turn = sum(self._log.ends(partitions_of(info)).values())
        self._turns[info.uid] = turn + 1
        return TopicPartition(info.name, turn % info.partitions)


def partitions_of(info: TopicInfo) -> list[TopicPartition]:
    """All partitions of a topic."""
    return [TopicPartition(info.name, number) for number in range(info.partitions)]
