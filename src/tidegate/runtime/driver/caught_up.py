"""Whether an app has taken everything that there was when it started, and drained its internal topics and its
gates."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tidegate.errors import LogError
from tidegate.gate.query import GateQuery
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import nothing_between
from tidegate.runtime.driver.run import Run
from tidegate.types import Offset, TopicPartition

LOOK_SECONDS = 0.2


class CaughtUp:
    """Pins the ends of the sources when it is made."""

    def __init__(self, run: Run, log: Log) -> None:
        self._run = run
        self._log = log
        self._next_look = 0.0
        self.pinned: dict[TopicPartition, Offset] = log.ends(run.sources())

    def as_plain(self) -> dict[str, dict[int, int]]:
        """The pinned ends by topic and partition."""
        plain: dict[str, dict[int, int]] = {}
        for partition, end in self.pinned.items():
            plain.setdefault(partition.topic, {})[partition.partition] = int(end)
        return plain

    def reached(self) -> bool:
        """Every position is at its source's pinned end or behind it, and at the end of internal topics, or
        nothing but offsets without records lies between.

        A position is written with the outputs that belong to it. So once all positions say that a task is
        done with what there is, whatever it wrote is there, and the ends are asked for after the positions.
        """
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_SECONDS
        try:
            return self._reached()
        except LogError as error:
            if not error.retryable:
                raise
            return False

    def _reached(self) -> bool:
        positions = read_positions(self._log, self._run.manifest.app)
        tasks = [task for _, task in self._run.tasks()] + [stage.task for stage in self._run.stages()]
        if any(task not in positions for task in tasks):
            return False
        internal = [
            TopicPartition(topic, number)
            for topic, count in self._internal().items()
            for number in range(count)
        ]
        ends = {**self.pinned, **self._log.ends(internal)}
        stand = (
            (TopicPartition(topic, number), offset)
            for task in tasks
            for topic, offsets in positions[task].sources.items()
            for number, offset in offsets.items()
        )
        return all(nothing_between(self._log, one, offset, ends[one]) for one, offset in stand) and not any(
            one.draining for gate in self._gates() for one in gate.states()
        )

    def _gates(self) -> Iterator[GateQuery]:
        manifest = self._run.manifest
        return (GateQuery(self._log, manifest, name, self._run.context.clock) for name in manifest.gates)

    def _internal(self) -> dict[str, int]:
        manifest = self._run.manifest
        return {topic: manifest.internal_partitions[name] for name, topic in manifest.internal.items()}
