"""The real runtime, looked at where that matters: the state of a task, and the writer of a slot.

Nothing of it decides anything. A `WatchedRun` opens slots as any other run does; its tasks' state shows what
is restored, and what is about to become durable. A `TaggedWriter` leaves a mark in each transaction, so that
it shows who committed it; one whose process was killed does nothing any more, not even abort.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tidegate.clock import Clock
from tidegate.log.positions import Position
from tidegate.log.protocol import Writer
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.run import Run
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.types import Offset, TopicPartition

TAGS = TopicSpec("tags", 1)
TAGS_AT = TopicPartition(TAGS.name, 0)


class Watch(Protocol):
    """What looks."""

    def made(self, state: WatchedState) -> None:
        """A task is opened."""
        ...

    def restored(self, state: WatchedState) -> None:
        """It is restored, and has processed nothing yet."""
        ...

    def persists(self, state: WatchedState) -> None:
        """It is about to write to disk."""
        ...


class WatchedState(StateManager):
    """A state manager that shows what it does."""

    start: Position | None = None
    """Where it was restored to."""

    def __init__(self, owner: Owner, home: Path, clock: Clock, limits: Limits | None, watch: Watch) -> None:
        super().__init__(owner, home, clock, limits)
        self._watch = watch
        watch.made(self)

    def running(self, position: Position) -> None:
        super().running(position)
        self.start = position
        self._watch.restored(self)

    def persist_now(self) -> None:
        self._watch.persists(self)
        super().persist_now()


@dataclass(frozen=True, slots=True)
class WatchedRun(Run):
    """A run whose tasks have such state."""

    watch: Watch

    @staticmethod
    def of(run: Run, watch: Watch) -> WatchedRun:
        return WatchedRun(run.context, run.log, run.counts, watch)

    def state(self, owner: Owner, home: Path, limits: Limits | None) -> StateManager:
        return WatchedState(owner, home, self.context.clock, limits, self.watch)


class TaggedWriter:
    """A writer that marks its transactions."""

    def __init__(self, inner: Writer, tag: int) -> None:
        self._inner = inner
        self._mark = to_batch([Row(None, str(tag).encode(), 0)])
        self.killed = False

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._inner.append(partition, batch)

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        return self._inner.flush(partitions)

    def commit(self) -> dict[TopicPartition, Offset]:
        self._inner.append(TAGS_AT, self._mark)
        return self._inner.commit()

    def abort(self) -> None:
        if not self.killed:
            self._inner.abort()

    def close(self) -> None:
        if not self.killed:
            self._inner.close()
