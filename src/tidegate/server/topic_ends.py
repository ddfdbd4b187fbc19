"""The ends of all topics, sampled: how many records each has got, and at which rate."""

from __future__ import annotations

import time

import msgspec

from tidegate.errors import LogError
from tidegate.log.ensure import find_topic
from tidegate.log.names import of_preview
from tidegate.log.protocol import Log
from tidegate.log.topic import TopicInfo
from tidegate.server.meters import Meter
from tidegate.types import TopicPartition

MOST_TOPICS = 1_000
NAMES_SECONDS = 2.0
DESCRIBE_SECONDS = 30.0
"""How often a topic is described again: partitions may be added to it."""


class TopicNumbers(msgspec.Struct, frozen=True):
    """One topic."""

    rate: float
    """Records appended per second."""
    records: int
    """Records that were ever appended: the sum of the ends."""


class TopicEnds:
    """Samples all topics of a log. Not thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, tuple[float, TopicInfo]] = {}
        self._meters: dict[str, Meter] = {}
        self._listed_at = float("-inf")
        self.left_out = 0
        """Topics beyond the limit."""

    def sample(self) -> dict[str, TopicNumbers]:
        """Read the ends of all topics."""
        now = time.monotonic()
        if now - self._listed_at >= NAMES_SECONDS:
            self._list(now)
        try:
            ends = self._log.ends(self._partitions())
        except LogError as error:
            if error.code != "no-such-topic":
                raise
            self._list(now)  # one was deleted since
            ends = self._log.ends(self._partitions())
        totals = dict.fromkeys(self._known, 0)
        for partition, end in ends.items():
            totals[partition.topic] += int(end)
        now = time.monotonic()
        found = {}
        for topic, total in totals.items():
            meter = self._meters.setdefault(topic, Meter())
            meter.take(now, total)
            found[topic] = TopicNumbers(meter.rate, total)
        return found

    def _partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, (_, info) in self._known.items()
            for number in range(info.partitions)
        ]

    def _list(self, now: float) -> None:
        names = sorted(name for name in self._log.names() if not of_preview(name))
        self.left_out = max(0, len(names) - MOST_TOPICS)
        known: dict[str, tuple[float, TopicInfo]] = {}
        for name in names[:MOST_TOPICS]:
            before = self._known.get(name)
            if before is not None and now - before[0] < DESCRIBE_SECONDS:
                known[name] = before
            elif (info := find_topic(self._log, name)) is not None:
                known[name] = now, info
        self._known = known
        self._meters = {name: meter for name, meter in self._meters.items() if name in known}
        self._listed_at = now
