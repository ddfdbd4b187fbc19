"""Live, replay and publish: where records go, and what else follows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.stories import START

from tidegate import App, Context, Record, StateError, TableTopic, Topic, UserCodeError, stores
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.log import names
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.modes import Destination, Mode, destination_of, takes_records, writes_dead_letters
from tidegate.runtime.output.staged_rows import split_key
from tidegate.runtime.slot.slot import Slot
from tidegate.state.manager import Limits
from tidegate.topology.node import NodeKind
from tidegate.types import TopicPartition

IN, OUT, TIMES = Topic("in", int), Topic("out", int), Topic("times", str)
TOTALS, COPIES = TableTopic("totals", int), TableTopic("copies", int)
REMINDERS = stores.timers("reminders", by="wall")
TOTALS_STAGING = TableTopic("modes-totals.g1-staging", int, key=bytes)
COPIES_STAGING = TableTopic("modes-copies.g1-staging", int, key=bytes)
LONG_AFTER = 365 * 24 * 3600 * 1000
BOTH_WAYS = pytest.mark.parametrize("batches", [False, True], ids=["record by record", "whole batches"])


class World:
    """A log, a clock, and an app that runs on them in one mode after the other."""

    def __init__(self, declare: Callable[[App], object], folder: Path) -> None:
        self.clock = ManualClock(START)
        self.log = SqliteLog(clock=self.clock)
        self.connection = Connection(self.log, partitions=2, clock=self.clock)
        self._declare = declare
        self.folder = folder

    def send(self, *sent: tuple[str, int, int]) -> None:
        for key, value, at in sent:
            self.connection.send(IN, key, value, timestamp=START + at)

    def ready(self, mode: Mode, *, staging: bool = True, **options: Any) -> Run:
        app = App("modes")
        self._declare(app)
        run = prepare(app.build(), self.log, self.clock, partitions=2, **options)
        made = {name: self._staging(name) for name in run.manifest.sinks} if staging else {}
        return replace(run, context=replace(run.context, mode=mode, staging=made))

    @contextmanager
    def running(self, mode: Mode, **options: Any) -> Iterator[Slot]:
        """One slot that did all there was to do."""
        [slot] = self.ready(mode, **options).slots(self.folder / "state", 1, Limits(sync=False))
        try:
            self.work(slot)
            yield slot
            slot.close()
        except BaseException:
            slot.drop()
            raise

    def work(self, slot: Slot) -> None:
        for _ in range(20):
            slot.step()
            slot.commit()

    def rows(self, table: TableTopic[Any, int]) -> dict[str, int]:
        """The rows of a table topic, or of its staging topic, whose keys begin with the task."""
        staged = table in (TOTALS_STAGING, COPIES_STAGING)
        rows: dict[Any, int] = self.connection.rows(table)
        return {split_key(key)[1].decode() if staged else key: row for key, row in rows.items()}

    def values(self, topic: Any) -> list[Any]:
        return [record.value for record in self.connection.read(topic)]

    def dead_letters(self) -> int:
        topic = names.dead_letters("modes")
        return sum(end for partition, end in self.ends().items() if partition.topic == topic)

    def ends(self) -> dict[TopicPartition, int]:
        """How far every topic reaches; plans and the like are left out."""
        topics = set(self.log.names()) - {names.control("modes"), names.status("modes")}
        counts = {topic: self.log.describe(topic).partitions for topic in topics}
        found = [TopicPartition(topic, number) for topic in counts for number in range(counts[topic])]
        return {partition: int(end) for partition, end in self.log.ends(found).items()}

    def _staging(self, topic: str) -> TopicInfo:
        return self.log.create(TopicSpec(names.staging("modes", topic, 1), 2, {"cleanup.policy": "compact"}))


@contextmanager
def world(declare: Callable[[App], object]) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-modes-"))
    made = World(declare, folder)
    try:
        with closing(made.log):
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def grouped(app: App) -> None:
    """Two tasks that may run over whole batches, a repartition between them."""
    app.stream(IN).map(sound).group_by("by-value", lambda value: f"v{value}").count("counts").to(TOTALS)


def sound(value: int) -> int:
    if value == 13:
        raise ValueError("no")
    if value == 14:
        raise MemoryError("nobody's fault")
    return value


def events(app: App) -> None:
    app.stream(IN).map(sound).to(OUT)


def rows_of_a_stream(app: App) -> None:
    app.stream(IN).map(sound).to(COPIES)


RECORDS = [("ada", 1, 0), ("bob", 2, 10), ("ada", 1, 20), ("cy", 2, 30), ("dan", 3, 40)]
COUNTS = {"v1": 2, "v2": 2, "v3": 1}


def test_where_records_go_by_mode_and_kind() -> None:
    sinks = [(NodeKind.SINK, False), (NodeKind.SINK, True), (NodeKind.TABLE_SINK, True)]
    inner = [(NodeKind.REPARTITION, False), (NodeKind.TABLE_GROUP, False)]
    ways: dict[Mode, list[Destination]] = {
        mode: [destination_of(mode, kind, rows=rows) for kind, rows in sinks + inner]
        for mode in ("live", "replay", "publish")
    }
    assert ways == {
        "live": [Destination.TOPIC] * 5,
        "replay": [
            Destination.NOWHERE,
            Destination.STAGING,
            Destination.STAGING,
            Destination.TOPIC,
            Destination.TOPIC,
        ],
        "publish": [Destination.NOWHERE] * 5,
    }
    assert [takes_records(mode) for mode in ("live", "replay", "publish")] == [True, True, False]
    assert [writes_dead_letters(mode) for mode in ("live", "replay", "publish")] == [True, False, False]


@BOTH_WAYS
def test_live_writes_to_the_topics_and_nothing_to_staging(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS)
        with w.running("live", batches=batches):
            assert (w.rows(TOTALS), w.values(TOTALS_STAGING)) == (COUNTS, [])


@BOTH_WAYS
def test_a_replay_brings_rows_to_staging_through_its_internal_topics(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS)
        w.clock.advance(LONG_AFTER)
        with w.running("replay", batches=batches) as slot:
            assert (w.values(TOTALS), w.rows(TOTALS_STAGING)) == ([], COUNTS)
            assert sum(task.skipped for task in slot.tasks) == 0


@BOTH_WAYS
def test_a_stream_that_is_written_to_a_table_topic_goes_to_staging_too(batches: bool) -> None:
    with world(rows_of_a_stream) as w:
        w.send(*RECORDS)
        with w.running("replay", batches=batches):
            assert w.values(COPIES) == []
            assert w.rows(COPIES_STAGING) == {"ada": 1, "bob": 2, "cy": 2, "dan": 3}


@BOTH_WAYS
def test_a_replay_sends_no_event_again(batches: bool) -> None:
    with world(events) as w:
        w.send(*RECORDS)
        with w.running("replay", batches=batches) as slot:
            assert w.values(OUT) == []
            assert sum(sum(task.read_from().values()) for task in slot.tasks) == len(RECORDS)


@BOTH_WAYS
@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_replay_skips_and_counts_what_fails(batches: bool, policy: str) -> None:
    with world(grouped) as w:
        w.send(*RECORDS, ("ada", 13, 50), ("bob", 13, 60))
        with w.running("replay", batches=batches, on_error=policy) as slot:
            assert w.rows(TOTALS_STAGING) == COUNTS
            assert sum(task.skipped for task in slot.tasks) == 2
            assert w.dead_letters() == 0


@BOTH_WAYS
def test_a_replay_ends_at_a_record_that_fails_under_stop(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS, ("ada", 13, 50))
        with (
            pytest.raises(UserCodeError, match=r"in/. offset") as caught,
            w.running("replay", batches=batches),
        ):
            raise AssertionError("it went on")
        assert caught.value.position is not None


@BOTH_WAYS
def test_a_replay_brings_one_row_per_key_and_commit_to_staging(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS, *RECORDS)
        with w.running("replay", batches=batches):
            assert sorted(w.values(TOTALS_STAGING)) == sorted(2 * count for count in COUNTS.values())


def test_a_replay_calls_no_peek() -> None:
    seen: list[int] = []
    with world(lambda app: app.stream(IN).peek(seen.append).to(COPIES)) as w:
        w.send(*RECORDS)
        with w.running("replay"):
            assert (seen, len(w.rows(COPIES_STAGING))) == ([], 4)


@BOTH_WAYS
def test_live_a_dead_letter_is_written(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS, ("ada", 13, 50))
        with w.running("live", batches=batches, on_error="dead-letter"):
            assert w.dead_letters() == 1


@BOTH_WAYS
def test_a_replay_stops_at_what_is_no_records_fault(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS, ("ada", 14, 50))
        with pytest.raises(MemoryError), w.running("replay", batches=batches):
            raise AssertionError("it went on")


def test_a_replay_without_a_staging_topic_does_not_start() -> None:
    refused = pytest.raises(StateError, match="no-staging")
    with world(grouped) as w, refused, w.running("replay", staging=False):
        raise AssertionError("it started")


def test_a_replay_without_an_end_for_a_topic_does_not_start() -> None:
    with world(grouped) as w:
        w.send(*RECORDS)
        with pytest.raises(StateError, match="no-pin") as caught:
            w.ready("replay").slots(
                w.folder, 1, pinned={TopicPartition("in", 0): 1, TopicPartition("in", 1): 1}
            )
        assert caught.value.code == "no-pin"


class Timed:
    """Tells what it sees of time, by the table topic that a replay writes to staging."""

    seen: list[Any]

    def init(self, ctx: Context[str, int]) -> None:
        ctx.schedule(15, lambda now: self.seen.append(("beat", now - START)), by="wall")

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        self.seen.append((record.key, ctx.replaying, ctx.now() - START, ctx.stream_time - START))
        if record.value == 2:
            ctx.store(REMINDERS).set(record.key, ctx.now() + 20)

    def on_timer(self, key: str, at: int, ctx: Context[str, int]) -> None:
        self.seen.append(("timer", key, at - START, ctx.now() - START))


def timed(seen: list[Any]) -> Callable[[App], object]:
    step = type("Step", (Timed,), {"seen": seen})
    return lambda app: app.stream(IN).repartition("one", partitions=1).process("s", step, stores=[REMINDERS])


def test_in_a_replay_the_wall_clock_of_user_code_is_stream_time() -> None:
    seen: list[Any] = []
    with world(timed(seen)) as w:
        w.send(("bob", 2, 10), ("bob", 1, 20), ("bob", 1, 30), ("bob", 1, 45))
        w.clock.advance(LONG_AFTER)
        with w.running("replay") as slot:
            before = list(seen)
            w.clock.advance(LONG_AFTER)
            w.work(slot)
    assert (
        seen
        == before
        == [
            ("bob", True, 10, 10),
            ("bob", True, 20, 20),
            ("bob", True, 30, 30),
            ("beat", 30),
            ("timer", "bob", 30, 30),
            ("bob", True, 45, 45),
            ("beat", 45),
        ]
    )


def test_a_publishing_task_takes_nothing_and_fires_nothing_and_its_stores_are_readable() -> None:
    seen: list[Any] = []
    with world(timed(seen)) as w:
        w.send(("bob", 2, 0))
        with w.running("live"):
            assert len(seen) == 1
        w.send(("bob", 2, 100), ("ada", 2, 100))
        w.clock.advance(50)
        ends = w.ends()
        with w.running("publish") as slot:
            assert len(seen) == 1
            for task in slot.tasks:
                task.fire()
                assert not task.moved()
            assert not any(task.run(100) for task in slot.tasks)
            readable = [task for task in slot.tasks if task.state.builders()]
            assert [list(task.state.store(REMINDERS).all()) for task in readable] == [[("bob", START + 20)]]
        assert w.ends() == ends
        with w.running("live"):
            assert [one for one in seen if one[0] != "beat"][1:] == [
                ("timer", "bob", 20, 50),
                ("bob", False, 50, 100),
                ("ada", False, 50, 100),
            ]


@BOTH_WAYS
def test_a_publishing_task_of_whole_batches_takes_nothing(batches: bool) -> None:
    with world(grouped) as w:
        w.send(*RECORDS)
        with w.running("publish", batches=batches) as slot:
            assert not any(task.moved() for task in slot.tasks)
            assert (w.values(TOTALS), w.values(TOTALS_STAGING)) == ([], [])
            assert sum(sum(task.read_from().values()) for task in slot.tasks) == 0
