"""Strict tasks: what comes out depends on the records below the pinned ends, and on nothing else.

Fetch timing, batch sizes, the order of tasks, the places of commits and the way of running (record by record
or whole batches) are drawn from a seed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.runtime.stories import START

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.clock import ManualClock
from tidegate.connection import Connection
from tidegate.log.positions import Position, read_positions
from tidegate.log.protocol import Fetched
from tidegate.log.reads import fold, read_between
from tidegate.log.records import READ_SCHEMA, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.commit import commit
from tidegate.runtime.start import Run, prepare
from tidegate.runtime.task import StreamTask
from tidegate.state.manager import Limits
from tidegate.state.restore import Restore
from tidegate.topology.graph import Subtopology
from tidegate.types import Offset, TopicPartition

IN, MORE = Topic("in", int), Topic("more", int)
ROWS = TableTopic("rows", int)
TEXTS, JOINED, TOTALS = Topic("texts", str), Topic("joined", str), TableTopic("totals", int)
SEEN = stores.key_value("seen", int)
REMINDERS = stores.timers("reminders")
PARTITIONS = 2
SEEDS = range(6)
NOTHING = pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)


@dataclass(frozen=True)
class Outcome:
    """Every record of every output partition as bytes, every store, and the fold of every changelog."""

    outputs: dict[str, list[Any]]
    stores: dict[str, list[Any]]
    changelogs: dict[str, dict[bytes, Any]]


def order_sensitive(app: App) -> None:
    """All that can depend on order: a join, a last value, timers, sequence numbers."""
    table = app.table(ROWS)
    events = app.stream(IN).merge(app.stream(MORE))
    events.left_join(table, lambda one, two: f"{one}&{two}").to(JOINED)
    events.process("last", last, stores=[SEEN]).to(TEXTS)


def last(record: Record[str, int], ctx: Context[str, str]) -> None:
    kept = ctx.store(SEEN)
    before = kept.get(record.key)
    kept.put(record.key, record.value)
    if before is None:
        ctx.schedule(700, lambda now: ctx.forward(Record(record.key, f"at {now}", now)))
    ctx.forward(record.with_value(f"{before}>{record.value}@{ctx.stream_time}"))


def timed(app: App) -> None:
    """Timers of keys, by stream time."""
    app.stream(IN).merge(app.stream(MORE)).process("remind", Remind, stores=[REMINDERS]).to(TEXTS)


class Remind:
    def process(self, record: Record[str, int], ctx: Context[str, str]) -> None:
        ctx.store(REMINDERS).set(record.key, record.timestamp + 10 * record.value)
        ctx.forward(record.with_value(f"{record.value}"))

    def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
        ctx.forward(Record(key, f"due {at} at {ctx.stream_time}", at))
        if at % 3 == 0:
            ctx.store(REMINDERS).set(key, at + 50)


def straight(app: App) -> None:
    """A chain that may run over whole batches."""
    app.stream(IN).filter(lambda value: value % 5 != 0).sum("sums", lambda value: value).to(TOTALS)


def repartitioned(app: App) -> None:
    app.stream(IN).group_by("by-name", lambda value: f"n{value % 4}").count("counts").to(TOTALS)


def send(connection: Connection) -> None:
    """The same records in every log: three topics, times that go back and forth, some equal."""
    rng = Random(7)
    for _ in range(120):
        key, value = rng.choice("abcdefgh"), rng.randrange(100)
        at = START - 10_000 + rng.randrange(40) * 100
        topic: Any = rng.choice([IN, IN, MORE, ROWS])
        connection.send(topic, key, value, timestamp=at)


def inputs_of(run: Run, sub: Subtopology, partition: int) -> list[TopicPartition]:
    nodes = (run.setting.topology.nodes[node] for node in sub.inputs)
    return [
        TopicPartition(node.topic.name if node.topic else run.manifest.internal[node.name], partition)
        for node in nodes
    ]


def history(log: SqliteLog, partition: TopicPartition, end: int) -> list[Any]:
    return [
        batch.slice(row, 1) for batch in read_between(log, partition, 0, end) for row in range(batch.num_rows)
    ]


def work(
    run: Run, log: SqliteLog, tasks: list[StreamTask], pinned: dict[TopicPartition, int], rng: Random
) -> None:
    """Feed and run the tasks in any order until all is done, with commits in between."""
    with closing(log.writer("strict")) as writer:
        left = {partition: history(log, partition, end) for partition, end in pinned.items()}
        while any(not task.merge.done() for task in tasks):
            task = rng.choice(tasks)
            partition = rng.choice(task.partitions())
            size = rng.randint(1, 9)
            rows, left[partition] = left[partition][:size], left[partition][size:]
            for row in rows:
                task.feed(Fetched(partition, row, Offset(row.column(0)[0].as_py() + 1)))
            if not left[partition]:
                task.feed(Fetched(partition, NOTHING, Offset(pinned[partition])))
            task.run(rng.randint(1, 20))
            if rng.random() < 0.1:
                commit(run.manifest.app, log, writer, tasks, run.setting.clock)
        for task in tasks:
            task.run(1000)
        commit(run.manifest.app, log, writer, tasks, run.setting.clock)


def started(task: StreamTask, log: SqliteLog, position: Position) -> StreamTask:
    restore = Restore(task.state, log, position)
    restore.open()
    restore.run()
    task.start(position)
    return task


def replay(declare: Callable[[App], None], seed: int, folder: Path) -> Outcome:
    rng, clock, app = Random(seed), ManualClock(START), App("strict")
    declare(app)
    with closing(SqliteLog(clock=clock)) as log:
        send(Connection(log, partitions=PARTITIONS, clock=clock))
        run = prepare(app, log, clock, partitions=PARTITIONS, batches=rng.random() < 0.5)
        for slot in run.slots(folder / "first", 1):
            slot.drop()  # the first positions are written
        positions = read_positions(log, "strict")
        found: dict[str, list[Any]] = {}
        folds: dict[str, dict[bytes, Any]] = {}
        for sub in run.setting.topology.subtopologies():
            mine = [(part, task) for part, task in run.tasks() if part is sub]
            tasks = []
            all_ends: dict[TopicPartition, int] = {}
            for part, task_id in rng.sample(mine, len(mine)):
                ends = {tp: int(end) for tp, end in log.ends(inputs_of(run, part, task_id.partition)).items()}
                all_ends |= ends
                task = run.task(part, task_id, folder / "run", 1, Limits(sync=False), ends)
                tasks.append(started(task, log, positions[task_id]))
            work(run, log, tasks, all_ends, rng)
            for task in tasks:
                for builder in task.state.builders():
                    found.setdefault(builder.name, []).extend(sorted(task.state.store(builder).all()))
                for partition in task.state.changelogs().values():
                    folds[str(partition)] = fold(log, partition)
                task.close()
        return Outcome(
            {str(tp): outputs(log, tp) for name in run.manifest.sinks for tp in all_of(log, name)},
            {name: sorted(rows) for name, rows in found.items()},
            folds,
        )


def all_of(log: SqliteLog, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(log.describe(topic).partitions)]


def outputs(log: SqliteLog, partition: TopicPartition) -> list[Any]:
    end = log.ends([partition])[partition]
    rows = [row for batch in read_between(log, partition, 0, end) for row in rows_of(batch)]
    return [(row.key, row.value, row.timestamp, row.headers) for row in rows]


@pytest.fixture
def folder() -> Any:
    made = Path(tempfile.mkdtemp(prefix="tidegate-strict-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize("declare", [order_sensitive, timed, straight])
def test_outputs_and_stores_are_equal_byte_for_byte_whatever_the_timing(
    declare: Callable[[App], None], folder: Path
) -> None:
    first, *others = [replay(declare, seed, folder / str(seed)) for seed in SEEDS]
    assert sum(len(records) for records in first.outputs.values()) > 20
    for other in others:
        assert other == first


def test_behind_a_repartition_rows_and_stores_are_equal_whatever_the_timing(folder: Path) -> None:
    """Several tasks write to one partition there, so the order in between is open; what is counted is not."""
    first, *others = [replay(repartitioned, seed, folder / str(seed)) for seed in SEEDS]
    assert first.stores["counts"]
    for other in others:
        assert other.stores == first.stores
        assert {tp: last_rows(records) for tp, records in other.outputs.items()} == {
            tp: last_rows(records) for tp, records in first.outputs.items()
        }


def last_rows(records: list[Any]) -> dict[bytes, bytes]:
    return {key: value for key, value, _, _ in records}


def test_a_record_at_the_pinned_end_is_left_for_later(folder: Path) -> None:
    clock, app = ManualClock(START), App("strict")
    straight(app)
    with closing(SqliteLog(clock=clock)) as log:
        Connection(log, partitions=1, clock=clock).send(IN, "ada", 1, 2, 4)
        run = prepare(app, log, clock, partitions=1)
        for slot in run.slots(folder / "first", 1):
            slot.drop()
        ((sub, task_id),) = run.tasks()
        position = read_positions(log, "strict")[task_id]
        tp = TopicPartition("in", 0)
        task = run.task(sub, task_id, folder / "run", 1, Limits(sync=False), {tp: 2})
        started(task, log, position)
        work(run, log, [task], {tp: 2}, Random(1))
        for batch in read_between(log, tp, 2, 3):
            task.feed(Fetched(tp, batch, Offset(3)))
        assert (task.run(100), task.merge.done()) == (0, True)
        assert task.position({}).sources == {"in": {0: 2}}
        task.close()
