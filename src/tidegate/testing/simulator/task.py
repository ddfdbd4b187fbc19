"""A stream task in small: what `runtime.commit` and a restore need of one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa

from tidegate.log.positions import Position, TaskId
from tidegate.log.records import ReadRow, Row, to_batch
from tidegate.state.manager import StateManager, Status
from tidegate.state.restore import Restore
from tidegate.testing.simulator.program import INPUT, OUTPUT, TAG, Op, Poison, perform, value_of
from tidegate.types import TopicPartition


class WatchedState(StateManager):
    """A state manager that is looked at before anything of it becomes durable."""

    watch: Callable[[StateManager], None]

    def persist_now(self) -> None:
        self.watch(self)
        super().persist_now()


class SimTask:
    """One life of a task, from the position that its slot read."""

    def __init__(self, task: TaskId, tag: int, state: StateManager, restore: Restore, at: Position) -> None:
        self._id = task
        self.tag = tag
        self._state = state
        self._rows: list[Row] = []
        self._committed = self.next = at.sources[INPUT][task.partition]
        self._stream_time = at.stream_times[INPUT][task.partition]
        self.restore = restore
        self.start = at

    @property
    def id(self) -> TaskId:
        return self._id

    @property
    def state(self) -> StateManager:
        return self._state

    @property
    def partition(self) -> int:
        return self._id.partition

    @property
    def running(self) -> bool:
        return self._state.status is Status.RUNNING

    def turn(self) -> bool:
        """One step of the restore. Whether the task runs now."""
        if self._state.status is Status.REGISTERED:
            self.restore.open()
            return False
        done = self.restore.turn()
        if done:
            self._state.moment.stream_time = self._stream_time
        return done

    def take(self, row: ReadRow) -> None:
        """Process one input."""
        moment = self._state.moment
        moment.timestamp = row.timestamp
        moment.stream_time = max(moment.stream_time, row.timestamp)
        value = value_of(self.tag, row.offset)
        self._state.begin_record()
        try:
            perform(msgspec.json.decode(row.value or b"", type=Op), self._state, value)
        except Poison:
            self._state.take_back()
        else:
            self._state.end_record()
        self._rows.append(Row(row.key, value.encode(), row.timestamp))
        self.next = row.offset + 1

    # --- what a commit asks for -----------------------------------------------------------------------

    def tell_time(self) -> None:
        """It has no internal topics."""

    def moved(self) -> bool:
        return self.next != self._committed

    def outputs(self) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        if not self._rows:
            return []
        return [(TopicPartition(OUTPUT, self.partition), to_batch(self._rows))]

    def position(self, changelogs: dict[str, int]) -> Position:
        return Position(
            sources={INPUT: {self.partition: self.next}},
            stream_times={INPUT: {self.partition: self._state.moment.stream_time}},
            changelogs=changelogs,
            progress={TAG: str(self.tag)},
        )

    def committed(self, position: Position) -> None:
        self._committed = position.sources[INPUT][self.partition]
        self._rows = []
