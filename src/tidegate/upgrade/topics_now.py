"""The topics of an app as they are in the log now: looked up once, all together. Nothing is created."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from tidegate.log.ensure import check_topic, find_topic
from tidegate.log.protocol import Log
from tidegate.log.route import partitions_of
from tidegate.log.topic import TopicInfo
from tidegate.topology.graph import Topology
from tidegate.topology.node import SINKS
from tidegate.types import TopicPartition

THREADS = 8
"""`describe` takes a log some milliseconds, and there may be many topics."""


class TopicsNow:
    """Descriptions and committed ends of topics."""

    def __init__(self, log: Log | None, names: Iterable[str]) -> None:
        """Without a log there are no topics."""
        self._infos: dict[str, TopicInfo] = {}
        self._ends: dict[TopicPartition, int] = {}
        if log is None:
            return
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda name: find_topic(log, name), sorted(set(names)))
            self._infos = {info.name: info for info in found if info is not None}
        partitions = [one for info in self._infos.values() for one in partitions_of(info)]
        self._ends = {one: int(end) for one, end in log.ends(partitions).items()}

    def info(self, topic: str) -> TopicInfo | None:
        return self._infos.get(topic)

    def counts(self) -> dict[str, int]:
        """Return the partition count of each topic."""
        return {name: info.partitions for name, info in self._infos.items()}

    def starts(self, topic: str) -> list[int]:
        """Return the first offset of each partition; none if there is no such topic."""
        info = self._infos.get(topic)
        return [] if info is None else list(info.starts)

    def records(self, topic: str, starts: list[int] | None = None) -> int:
        """Return the number of offsets from `starts`, or from the first ones, to the committed ends."""
        info = self._infos.get(topic)
        if info is None:
            return 0
        first = [max(pair) for pair in zip(info.starts, starts or info.starts, strict=False)]
        first += info.starts[len(first) :]
        ends = (self._ends[one] for one in partitions_of(info))
        return sum(max(0, end - start) for end, start in zip(ends, first, strict=True))

    def check_outputs(self, topology: Topology) -> None:
        """Raise LogError `partition-count` or `other-policy` for an output that is declared otherwise than it
        is. A start does the same."""
        for node in topology.nodes.values():
            topic = node.topic
            info = None if topic is None else self._infos.get(topic.name)
            if node.kind in SINKS and topic is not None and info is not None:
                check_topic(info, table=topic.policy == "compact", partitions=topic.partitions)
