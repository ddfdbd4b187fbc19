"""The life of a slot that will be killed: two tasks, five stores each, and commits all the time."""

from __future__ import annotations

import os
import random
import signal
from collections import deque
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection

from tests.state.bench import Bench, Slot, Task
from tests.state.counting import GHOST, PARTITIONS, STORES, TOTALS, check_stores, process
from tests.state.faults import Failure, at, failing_at
from tests.state.ground import Ground

from tidegate.errors import FencedError
from tidegate.log.faultpoints import installed
from tidegate.log.records import ReadRow, rows_of
from tidegate.state.manager import Limits
from tidegate.types import Offset, TopicPartition

QUICK = Limits(commit_seconds=0.05, replay_buffer_bytes=1)
ABORTED_STEPS = ["commit.2", "commit.3", "commit.4", "commit.5"]


def slot_life(pipe: Connection, ground: Ground, host: str, seed: int, stop_at: str | None) -> None:
    """Work until killed. With `stop_at` the process stops itself in that step of a commit, as a zombie does;
    once it is awake again it must find itself fenced."""
    rng = random.Random(seed)
    bench = ground.bench(len(PARTITIONS))
    try:
        while True:
            slot = bench.slot()
            try:
                _work(pipe, bench, slot, host, rng, stop_at)
            except Failure:
                slot.drop()
                slot.writer.close()
    except FencedError:
        pipe.send(("fenced",))


def _work(
    pipe: Connection, bench: Bench, slot: Slot, host: str, rng: random.Random, stop_at: str | None
) -> None:
    tasks = [slot.start(*STORES, partition=partition, host=host, limits=QUICK) for partition in PARTITIONS]
    for task in tasks:
        check_stores(bench, task)
    pipe.send(("open", [task.listener.discards() for task in tasks]))
    commits, last = 0, rng.randrange(2, 12)
    falls_asleep = at(stop_at or "", _stop)
    with ExitStack() as stack:
        sources = [(task, stack.enter_context(closing(Source(bench, task)))) for task in tasks]
        while True:
            for task, source in sources:
                for record in source.take(rng.randrange(20)):
                    process(task, record)
            commits += 1
            if stop_at is not None and commits >= last:
                with installed(falls_asleep):
                    slot.commit()
            elif stop_at is None and rng.random() < 0.03:
                _fail(slot, rng)
            else:
                slot.commit()
            pipe.send(("acked", {task.id.partition: task.offset for task in tasks}))


class Source:
    """The records of a task's source partition, from its position on."""

    def __init__(self, bench: Bench, task: Task) -> None:
        partition = TopicPartition("in", task.id.partition)
        self._reader = bench.log.reader({partition: Offset(task.offset)})
        self._rows: deque[ReadRow] = deque()

    def take(self, count: int) -> list[ReadRow]:
        if not self._rows:
            self._rows.extend(row for fetched in self._reader.poll(0.01) for row in rows_of(fetched.batch))
        return [self._rows.popleft() for _ in range(min(count, len(self._rows)))]

    def close(self) -> None:
        self._reader.close()


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _fail(slot: Slot, rng: random.Random) -> None:
    """A commit that fails before the log has it: nothing of it may ever be seen."""
    for task in slot.tasks:
        task.state.store(TOTALS).put(GHOST, 1)
        task.emit(GHOST.encode(), b"")
    with installed(failing_at(rng.choice(ABORTED_STEPS))):
        slot.commit()
