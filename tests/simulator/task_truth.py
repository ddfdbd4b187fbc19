"""What is committed of one task: its inputs, positions and changelogs, and what they come to."""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.simulator.expected import Expected, Input
from tests.simulator.program import BUILDERS, OUTPUT, tag_and_number, value_of
from tests.simulator.violation import demand

from tidegate.log.positions import Position, TaskId
from tidegate.log.records import ReadRow
from tidegate.runtime.driver.run import Run
from tidegate.state.builder import StoreBuilder
from tidegate.topology.graph import Subtopology
from tidegate.types import TopicPartition


class TaskTruth:
    """Of a task that performs operations, or of a gate's, of which only the rows and positions are known."""

    def __init__(self, run: Run, sub: Subtopology, task: TaskId) -> None:
        nodes = [run.context.topology.nodes[number] for number in sub.nodes]
        builders: dict[str, StoreBuilder[Any]] = {one.name: one for node in nodes for one in node.stores}
        self.task = task
        self.performs = any(node.topic is not None and node.topic.name == OUTPUT for node in nodes)
        self.builders = builders
        self.changelogs = {
            name: TopicPartition(topic, task.partition)
            for name in builders
            if (topic := run.manifest.stores[name].changelog) is not None
        }
        self.source = TopicPartition(run.context.inputs(sub, task.partition)[0].topic, task.partition)
        self.inputs: dict[int, Input] = {}
        self.tags: dict[int, int] = {}
        self.positions: list[Position] = []
        self.compactions: list[int] = []
        self.expected = Expected()
        self.outputs: deque[tuple[int, int]] = deque()
        self.changes: dict[str, list[ReadRow]] = {store: [] for store in builders}
        self._folded: dict[str, dict[bytes, bytes]] = {store: {} for store in builders}
        self._next = 0

    @property
    def newest(self) -> Position:
        return self.positions[-1]

    def until(self, position: Position) -> int:
        """The next input to process at a position."""
        return position.sources[self.source.topic][self.source.partition]

    def move(self, position: Position) -> None:
        """A position was committed: the inputs below it count, and each has its output, in order."""
        until = self.until(position)
        demand(until >= self._next, "I2", f"the position of {self.task} went back to {until}")
        if self.performs:
            for offset, given in self.inputs.items():
                if self._next <= offset < until:
                    self._performed(given)
        self._next = until
        self.positions.append(position)

    def _performed(self, given: Input) -> None:
        if given.op is None or given.op.action == "fail":
            self.expected.take(given, "")
            return
        awaited = given.op.number
        demand(
            bool(self.outputs), "I1", f"{self.task}: input {awaited} has no output, and is below a position"
        )
        tag, number = self.outputs.popleft()
        demand(number == awaited, "I2", f"{self.task}: an output of {number}, awaited was that of {awaited}")
        self.tags[number] = tag
        self.expected.take(given, value_of(tag, number))

    def check_outputs(self) -> None:
        """No output is above the position."""
        demand(not self.outputs, "I2", f"{self.task}: outputs {list(self.outputs)} are above its position")

    def change(self, store: str, row: ReadRow) -> None:
        """A record of a changelog was committed."""
        demand(row.key is not None, "I5", f"a changelog record of {store} has no key")
        self.changes[store].append(row)
        self._fold(self._folded[store], store, row)
        demand(
            row.offset < self.newest.changelogs[store],
            "I6",
            f"{store} of {self.task}: offset {row.offset} is not below its position {self.newest}",
        )
        if row.value is not None and store in BUILDERS:
            tag, number = tag_and_number(row.value.decode())
            demand(
                self.tags.get(number) == tag,
                "I3",
                f"the changelog of {store}, {self.task}, has {row.value!r}, which was never committed",
            )

    def fold(self, store: str, offset: int) -> dict[bytes, bytes]:
        """The rows that a store has at a changelog offset."""
        changes = self.changes[store]
        if not changes or changes[-1].offset < offset:
            return self._folded[store]
        rows: dict[bytes, bytes] = {}
        for row in changes:
            if row.offset < offset:
                self._fold(rows, store, row)
        return rows

    def expected_at(self, until: int) -> Expected:
        """What the inputs below an offset come to."""
        return self.expected if until == self._next else self.fresh_at(until)

    def fresh_at(self, until: int) -> Expected:
        """The same, folded once more: it is the caller's."""
        found = Expected()
        for offset, given in self.inputs.items():
            if offset < until:
                number = -1 if given.op is None else given.op.number
                found.take(given, value_of(self.tags.get(number, -1), number))
        return found

    def _fold(self, rows: dict[bytes, bytes], store: str, row: ReadRow) -> None:
        value: Any = self.builders[store].layout.restored(row.value, row.timestamp)
        rows.pop(row.key or b"", None)
        if value is not None:
            rows[row.key or b""] = value
