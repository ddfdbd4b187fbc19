"""Strict tasks: what comes out depends on the records below the pinned ends, and on nothing else.

Fetch timing, batch sizes, the order of tasks, the places of commits and crashes, and the way of running
(record by record or whole batches) are drawn from a seed.
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
from tidegate.connect.connection import Connection
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Fetched
from tidegate.log.reads import fold, read_between
from tidegate.log.records import READ_SCHEMA, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.commit import commit
from tidegate.runtime.task.task import StreamTask
from tidegate.state.manager import Limits
from tidegate.state.restore import Restore
from tidegate.topology.graph import Subtopology
from tidegate.types import Offset, TopicPartition

IN, MORE = Topic("in", int), Topic("more", int)
ROWS = TableTopic("rows", int)
TEXTS, JOINED, TOTALS = Topic("texts", str), Topic("joined", str), TableTopic("totals", int)
CHAIN, ENDS = stores.key_value("chains", str), stores.key_value("ends", str)
SEEN = stores.key_value("seen", int)
REMINDERS = stores.timers("reminders")
PARTITIONS = 2
SEEDS = range(6)
NOTHING = pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)


@dataclass(frozen=True)
class Outcome:
    """Every record of every output partition as bytes, those of internal ones in any order, every store, and
    the fold of every changelog."""

    outputs: dict[str, list[Any]]
    internal: dict[str, list[Any]]
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


def sensitive_behind(app: App) -> None:
    """What depends on order, and lies behind two internal topics; much is dropped before them."""
    by_name = (
        app.stream(IN).filter(lambda value: value % 3 != 0).group_by("by-name", lambda value: f"n{value % 4}")
    )
    chained = by_name.process("chain", chain, stores=[CHAIN])
    by_end = chained.group_by("by-end", lambda text: text[-1:])
    by_end.process("last", last_text, stores=[ENDS]).to(TEXTS)


def modelled(app: App) -> None:
    """Rows of a model: state, hash and stamps all depend on the order of the diffs."""
    app.model("sums", source=app.stream(IN).merge(app.stream(MORE)), initial=dict)(added)


def added(state: dict[str, Any], value: int) -> dict[str, Any] | None:
    if value == 0:
        return None
    name = f"n{value % 5}"
    return {**state, "last": [*state.get("last", []), value][-3:], name: state.get(name, 0) + value}


def chain(record: Record[str, int], ctx: Context[str, str]) -> None:
    kept = ctx.store(CHAIN)
    text = f"{kept.get(record.key) or ''}.{record.value}"[-40:]
    kept.put(record.key, text)
    ctx.forward(record.with_value(text))


def last_text(record: Record[str, str], ctx: Context[str, str]) -> None:
    kept = ctx.store(ENDS)
    ctx.forward(record.with_value(f"{kept.get(record.key)}>{record.value}@{record.offset} {ctx.stream_time}"))
    kept.put(record.key, record.value)


def send(connection: Connection) -> None:
    """The same records in every log: three topics, times that go back and forth, some equal."""
    rng = Random(7)
    for _ in range(120):
        key, value = rng.choice("abcdefgh"), rng.randrange(100)
        at = START - 10_000 + rng.randrange(40) * 100
        topic: Any = rng.choice([IN, IN, MORE, ROWS])
        connection.send(topic, key, value, timestamp=at)


def inputs_of(run: Run, sub: Subtopology, partition: int) -> list[TopicPartition]:
    nodes = (run.context.topology.nodes[node] for node in sub.inputs)
    return [
        TopicPartition(node.topic.name if node.topic else run.manifest.internal[node.name], partition)
        for node in nodes
    ]


def history(log: SqliteLog, start: int, partition: TopicPartition, end: int) -> list[Any]:
    batches = read_between(log, partition, start, end)
    return [batch.slice(row, 1) for batch in batches for row in range(batch.num_rows)]


def work(
    run: Run,
    log: SqliteLog,
    tasks: list[StreamTask],
    pinned: dict[TopicPartition, int],
    rng: Random,
    crash: float = 0.0,
) -> bool:
    """Feed and run the tasks in any order, with commits in between. Whether all is done, or there was a
    crash before."""
    with closing(log.writer("strict")) as writer:
        left = {
            partition: history(log, task.merge.read_to(partition), partition, pinned[partition])
            for task in tasks
            for partition in task.partitions()
        }
        while any(not task.merge.done() for task in tasks):
            if rng.random() < crash:
                return False
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
                commit(run.manifest.app, log, writer, tasks, run.context.clock)
        for task in tasks:
            task.run(1000)
        commit(run.manifest.app, log, writer, tasks, run.context.clock)
    return True


def open_task(
    run: Run, sub: Subtopology, task: TaskId, folder: Path, ends: dict[TopicPartition, int]
) -> StreamTask:
    pinned = {tp: ends[tp] for tp in inputs_of(run, sub, task.partition)}
    return run.task(sub, task, folder, 1, Limits(sync=False), pinned)


def started(task: StreamTask, log: SqliteLog, position: Position) -> StreamTask:
    restore = Restore(task.state, log, position)
    restore.open()
    restore.run()
    task.start(position)
    return task


def replay(declare: Callable[[App], None], seed: int, folder: Path, crash: float) -> Outcome:
    rng, clock, app = Random(seed), ManualClock(START), App("strict")
    declare(app)
    with closing(SqliteLog(clock=clock)) as log:
        send(Connection(log, partitions=PARTITIONS, clock=clock))
        run = prepare(app.build(), log, clock, partitions=PARTITIONS, batches=rng.random() < 0.5)
        for slot in run.slots(folder / "first", 1):
            slot.drop()  # the first positions are written
        found: dict[str, list[Any]] = {}
        folds: dict[str, dict[bytes, Any]] = {}
        for sub in run.context.topology.subtopologies():
            ids = [task for part, task in run.tasks() if part is sub]
            inputs = [partition for one in ids for partition in inputs_of(run, sub, one.partition)]
            ends = {partition: int(end) for partition, end in log.ends(inputs).items()}
            done = False
            tasks: list[StreamTask] = []
            while not done:
                for task in tasks:
                    task.drop()
                positions = read_positions(log, "strict")
                tasks = [
                    started(open_task(run, sub, one, folder / "run", ends), log, positions[one])
                    for one in rng.sample(ids, len(ids))
                ]
                done = work(run, log, tasks, ends, rng, crash=crash)
            for task in tasks:
                for builder in task.state.builders():
                    found.setdefault(builder.name, []).extend(sorted(task.state.store(builder).all()))
                for partition in task.state.changelogs().values():
                    folds[str(partition)] = fold(log, partition)
                task.close()
        return Outcome(
            {str(tp): outputs(log, tp) for name in run.manifest.sinks for tp in all_of(log, name)},
            {
                str(tp): sorted(map(repr, outputs(log, tp)))
                for name in run.manifest.internal.values()
                for tp in all_of(log, name)
            },
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


@pytest.mark.parametrize(
    "declare", [order_sensitive, timed, straight, repartitioned, sensitive_behind, modelled]
)
def test_outputs_and_stores_are_equal_byte_for_byte_whatever_the_timing(
    declare: Callable[[App], None], folder: Path
) -> None:
    crash = 0.0 if declare is order_sensitive else 0.02  # its timers live in memory: they go with a crash
    first, *others = [replay(declare, seed, folder / str(seed), crash) for seed in SEEDS]
    assert sum(len(records) for records in first.outputs.values()) > 20
    for other in others:
        assert other == first


def test_a_record_at_the_pinned_end_is_left_for_later(folder: Path) -> None:
    clock, app = ManualClock(START), App("strict")
    straight(app)
    with closing(SqliteLog(clock=clock)) as log:
        Connection(log, partitions=1, clock=clock).send(IN, "ada", 1, 2, 4)
        run = prepare(app.build(), log, clock, partitions=1)
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
