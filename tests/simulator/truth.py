"""Everything that was ever committed, read from the log once and kept: the oracle's side of a run.

Compaction cannot take anything away from it, and an open transaction hides nothing from it. What the log says
is checked while it is read: outputs are the inputs below the position, each once and in order (I2, I4), no
value is of a transaction that did not count (I3), offsets rise (I5), a fenced writer is silent (I8), and a
gate lets through what it must (I9).
"""

from __future__ import annotations

import msgspec
from tests.simulator.expected import Input
from tests.simulator.gate_truth import GateTruth
from tests.simulator.logs import Rows, SimLog
from tests.simulator.program import ADMITTED, APP, INPUT, OUTPUT, Op, tag_and_number
from tests.simulator.task_truth import TaskTruth
from tests.simulator.violation import demand
from tests.simulator.watched import TAGS_AT

from tidegate.log import names
from tidegate.log.positions import Position, TaskId
from tidegate.log.records import ReadRow
from tidegate.runtime.driver.run import Run
from tidegate.runtime.output.origin import origin_of
from tidegate.types import Offset, TopicPartition


class Truth:
    """What is committed of all tasks."""

    def __init__(self, log: SimLog, run: Run, partitions: int, *, gate: bool) -> None:
        self.tasks = {task: TaskTruth(run, sub, task) for sub, task in run.tasks()}
        self.gate = GateTruth(partitions) if gate else None
        self.compactions = 0
        self._fenced: set[int] = set()
        self._seen: set[tuple[TopicPartition, int]] = set()
        self._positions = TopicPartition(names.positions(APP), 0)
        self._source = ADMITTED if gate else INPUT
        self._numbered = [known for known in self.tasks.values() if known.performs]
        topics = dict.fromkeys([INPUT, self._source, OUTPUT])
        listed = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        changelogs = [at for known in self.tasks.values() for at in known.changelogs.values()]
        followed = [*listed, *changelogs, self._positions, TAGS_AT]
        self._follower = log.truth({one: Offset(0) for one in followed})

    def close(self) -> None:
        self._follower.close()

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
        self._check_new(fresh)
        for known in self._numbered:
            number = known.task.partition
            for row in fresh.get(TopicPartition(self._source, number), ()):
                known.inputs[row.offset] = _input(row)
            for row in fresh.get(TopicPartition(OUTPUT, number), ()):
                known.outputs.append(tag_and_number((row.value or b"").decode()))
        if self.gate is not None:
            self.gate.absorb(fresh)
        for row in fresh.get(self._positions, ()):
            self._moved(row)
        for known in self.tasks.values():
            known.check_outputs()
            for store, at in known.changelogs.items():
                for row in fresh.get(at, ()):
                    known.change(store, row)

    def _check_new(self, fresh: Rows) -> None:
        """Each offset once, and nothing of a fenced writer."""
        for at, rows in fresh.items():
            for row in rows:
                demand((at, row.offset) not in self._seen, "I5", f"offset {row.offset} came twice in {at}")
                self._seen.add((at, row.offset))
        for row in fresh.get(TAGS_AT, ()):
            tag = int(row.value or b"")
            demand(tag not in self._fenced, "I8", f"incarnation {tag} was fenced and committed")

    def _moved(self, row: ReadRow) -> None:
        task = msgspec.json.decode(row.key or b"", type=TaskId)
        position = msgspec.json.decode(row.value or b"", type=Position)
        known = self.tasks[task]
        known.compactions.append(self.compactions)
        known.move(position)
        if self.gate is not None and not known.performs:
            self.gate.check(task.partition, position)


def _input(row: ReadRow) -> Input:
    """An input as a task must take it. Behind a gate the time is that of the origin."""
    origin = origin_of(row.headers)
    op = None if row.value is None else msgspec.json.decode(row.value, type=Op)
    return Input(op, row.timestamp, row.timestamp if origin is None else origin.time)
