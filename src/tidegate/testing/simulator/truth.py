"""Everything that was ever committed, read from the log once and kept: the oracle's side of a run.

Compaction cannot take anything away from it, and an open transaction hides nothing from it. What the log says
is checked while it is read: outputs are the inputs below the position, each once and in order (I2, I4), no
value is of a transaction that did not count (I3), offsets rise (I5), a fenced writer is silent (I8).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate import names
from tidegate.log.positions import Position, TaskId
from tidegate.log.records import ReadRow
from tidegate.testing.simulator.expected import Expected
from tidegate.testing.simulator.logs import Rows, SimLog
from tidegate.testing.simulator.program import (
    APP,
    BUILDERS,
    INPUT,
    OUTPUT,
    TAG,
    Op,
    changelog,
    tag_and_offset,
    value_of,
)
from tidegate.testing.simulator.violation import demand
from tidegate.types import Offset, TopicPartition


class TaskTruth:
    """What is committed of one task."""

    def __init__(self, stores: tuple[str, ...]) -> None:
        self.inputs: dict[int, tuple[Op, int]] = {}
        self.tags: dict[int, int] = {}
        self.positions: list[Position] = []
        self.position_at = 0
        self.compactions: list[int] = []
        self.expected = Expected()
        self.outputs: list[str] = []
        self.awaited: list[str] = []
        self.changes: dict[str, list[ReadRow]] = {store: [] for store in stores}
        self._folded: dict[str, dict[bytes, bytes]] = {store: {} for store in stores}
        self._next = 0

    @property
    def newest(self) -> Position:
        return self.positions[-1]

    def committed(self, partition: int) -> int:
        """The next input to process."""
        return self.newest.sources[INPUT][partition]

    def move(self, position: Position, partition: int) -> None:
        """A position was committed: the inputs below it count, as written by its tag."""
        until, tag = position.sources[INPUT][partition], int(position.progress[TAG])
        demand(until >= self._next, "I2", f"the position of task {partition} went back to {until}")
        for offset, (op, timestamp) in self.inputs.items():
            if self._next <= offset < until:
                self.tags[offset] = tag
                self.expected.take(op, timestamp, value_of(tag, offset))
                self.awaited.append(value_of(tag, offset))
        self._next = until
        self.positions.append(position)

    def change(self, store: str, row: ReadRow) -> None:
        """A record of a changelog was committed."""
        demand(row.key is not None, "I5", f"a changelog record of {store} has no key")
        self.changes[store].append(row)
        _fold(self._folded[store], store, row)

    def fold(self, store: str, offset: int) -> dict[bytes, bytes]:
        """The rows that a store has at a changelog offset."""
        changes = self.changes[store]
        if not changes or changes[-1].offset < offset:
            return self._folded[store]
        rows: dict[bytes, bytes] = {}
        for row in changes:
            if row.offset < offset:
                _fold(rows, store, row)
        return rows

    def expected_at(self, until: int) -> Expected:
        """What the inputs below an offset come to."""
        return self.expected if until == self._next else self.fresh_at(until)

    def fresh_at(self, until: int) -> Expected:
        """The same, folded anew: it is the caller's."""
        found = Expected()
        for offset, (op, timestamp) in self.inputs.items():
            if offset < until:
                found.take(op, timestamp, value_of(self.tags[offset], offset))
        return found


class Truth:
    """What is committed of all tasks."""

    def __init__(self, log: SimLog, stores: tuple[str, ...], partitions: int) -> None:
        self.tasks = [TaskTruth(stores) for _ in range(partitions)]
        self.compactions = 0
        self._stores = stores
        self._fenced: set[int] = set()
        self._seen: set[tuple[TopicPartition, int]] = set()
        self._positions = TopicPartition(names.positions(APP), 0)
        topics = [INPUT, OUTPUT, *(changelog(store) for store in stores)]
        listed = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        self._follower = log.truth({one: Offset(0) for one in [*listed, self._positions]})

    def close(self) -> None:
        self._follower.close()

    def positions_from(self) -> int:
        """An offset from which the newest position of every task still lies ahead: what a plan carries."""
        return min(task.position_at for task in self.tasks)

    def fence(self, tag: int) -> None:
        """From here on nothing of this incarnation may be committed."""
        self.sync()
        self._fenced.add(tag)

    def sync(self) -> None:
        """Read what was committed since the last time, and check it."""
        fresh = self._follower.read()
        if fresh:
            self._absorb(fresh)

    def _absorb(self, fresh: Rows) -> None:
        for at, rows in fresh.items():
            for row in rows:
                demand((at, row.offset) not in self._seen, "I5", f"offset {row.offset} came twice in {at}")
                self._seen.add((at, row.offset))
        for number, task in enumerate(self.tasks):
            for row in fresh.get(TopicPartition(INPUT, number), ()):
                task.inputs[row.offset] = msgspec.json.decode(row.value or b"", type=Op), row.timestamp
        for row in fresh.get(self._positions, ()):
            self._moved(row)
        for number, task in enumerate(self.tasks):
            outputs = fresh.get(TopicPartition(OUTPUT, number), ())
            task.outputs += [(row.value or b"").decode() for row in outputs]
            demand(
                task.outputs == task.awaited,
                "I2",
                f"outputs of task {number} are {task.outputs}, the position asks for {task.awaited}",
            )
            for store in self._stores:
                for row in fresh.get(TopicPartition(changelog(store), number), ()):
                    self._changed(number, store, row)

    def _moved(self, row: ReadRow) -> None:
        task = msgspec.json.decode(row.key or b"", type=TaskId)
        position = msgspec.json.decode(row.value or b"", type=Position)
        tag = int(position.progress[TAG])
        demand(tag not in self._fenced, "I8", f"incarnation {tag} was fenced and committed {task}")
        known = self.tasks[task.partition]
        known.compactions.append(self.compactions)
        known.position_at = row.offset
        known.move(position, task.partition)

    def _changed(self, number: int, store: str, row: ReadRow) -> None:
        task = self.tasks[number]
        task.change(store, row)
        demand(
            row.offset < task.newest.changelogs[store],
            "I6",
            f"{store} of task {number}: offset {row.offset} is not below its position {task.newest}",
        )
        if row.value is not None:
            tag, offset = tag_and_offset(row.value.decode())
            demand(
                task.tags.get(offset) == tag,
                "I3",
                f"the changelog of {store}, task {number}, has {row.value!r}, which was never committed",
            )


def _fold(rows: dict[bytes, bytes], store: str, row: ReadRow) -> None:
    value: Any = BUILDERS[store].layout.restored(row.value, row.timestamp)
    rows.pop(row.key or b"", None)
    if value is not None:
        rows[row.key or b""] = value
