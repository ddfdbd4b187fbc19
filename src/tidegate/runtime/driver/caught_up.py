"""Check whether an app has processed everything that was in its sources when it started, and has drained its
internal topics and gates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from tidegate.errors import LogError
from tidegate.gate.query import GateQuery
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import nothing_between
from tidegate.runtime.driver.run import Run
from tidegate.types import Offset, TopicPartition

CHECK_SECONDS = 0.2


class Ending(Protocol):
    """Decides when a run ends by itself."""

    def reached(self) -> bool: ...


class CaughtUp:
    """Pins the ends of the sources when it is created."""

    def __init__(self, run: Run, log: Log) -> None:
        self._run = run
        self._log = log
        self._next_check = 0.0
        self.pinned: dict[TopicPartition, Offset] = log.ends(run.sources())

    def as_plain(self) -> dict[str, dict[int, int]]:
        """Return the pinned ends by topic and partition."""
        plain: dict[str, dict[int, int]] = {}
        for partition, end in self.pinned.items():
            plain.setdefault(partition.topic, {})[partition.partition] = int(end)
        return plain

    def reached(self) -> bool:
        """Return whether every position has reached the pinned ends of the sources and the ends of internal
        topics. Offsets that hold no records do not count.

        Positions are read before the ends: a position is committed together with its outputs, so whatever a
        task wrote up to its position is included in the ends.
        """
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + CHECK_SECONDS
        try:
            return self._reached()
        except LogError as error:
            if not error.retryable:
                raise
            return False

    def _reached(self) -> bool:
        positions = read_positions(self._log, self._run.manifest.app)
        tasks = [task for task, _ in self._run.positioned()]
        if any(task not in positions for task in tasks):
            return False
        internal = [
            TopicPartition(topic, number)
            for topic, count in self._internal().items()
            for number in range(count)
        ]
        ends = {**self.pinned, **self._log.ends(internal)}
        reached = (
            (TopicPartition(topic, number), offset)
            for task in tasks
            for topic, offsets in positions[task].sources.items()
            for number, offset in offsets.items()
        )
        return all(
            nothing_between(self._log, partition, offset, ends[partition]) for partition, offset in reached
        ) and not any(state.draining for gate in self._gates() for state in gate.states())

    def _gates(self) -> Iterator[GateQuery]:
        manifest = self._run.manifest
        return (GateQuery(self._log, manifest, name, self._run.context.clock) for name in manifest.gates)

    def _internal(self) -> dict[str, int]:
        manifest = self._run.manifest
        return {topic: manifest.internal_partitions[name] for name, topic in manifest.internal.items()}
