"""What a commit of one slot costs with more and more tasks: one record each, one transaction."""

from __future__ import annotations

import time

from benchmarks.peers.bench import Bench
from benchmarks.peers.records import VALUE
from benchmarks.peers.tidegate.apps import Names, counting
from benchmarks.report import median
from tidegate.clock import SystemClock
from tidegate.log.records import columns_to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.slot.slot import Slot
from tidegate.types import TopicPartition

TASKS = (1, 4, 16, 64)


def measure(bench: Bench) -> None:
    """The median and the worst of many commits, after some that warm up."""
    for tasks in TASKS:
        bench.report.progress(f"commits of a slot with {tasks} tasks")
        found = _commits(bench, tasks, 20 if bench.quick else 200)
        bench.report.measured(f"commit of a slot, {tasks} tasks", median(found) * 1000, "ms")
        bench.report.measured(f"commit of a slot, {tasks} tasks, max", max(found) * 1000, "ms")


def _commits(bench: Bench, tasks: int, times: int) -> list[float]:
    app = f"commits-{tasks}"
    source = f"{app}-source"
    bench.log.create(TopicSpec(source, tasks, {}))
    names = Names(app_id=app, source=source, output=f"{app}-output")
    ready = prepare(counting(names).build(), bench.log, SystemClock(), partitions=tasks)
    [slot] = ready.slots(bench.folder / app, 1)
    took = []
    for number in range(times + 10):
        at = time.time_ns() // 1_000_000
        for partition in range(tasks):
            batch = columns_to_batch([at], [b"key-%d" % number], [VALUE])
            bench.log.append(TopicPartition(source, partition), batch)
        _take(slot, tasks * (number + 1))
        begun = time.perf_counter()
        slot.commit()
        took.append(time.perf_counter() - begun)
    slot.close()
    return took[10:]


def _take(slot: Slot, records: int) -> None:
    deadline = time.monotonic() + 60
    while slot.restoring or sum(sum(task.read_from().values()) for task in slot.tasks) < records:
        slot.step(0.01)
        assert time.monotonic() < deadline
