"""Records that are decoded together have the effects of single records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.batches.test_whole_batches import committed
from tests.runtime.stories import START
from tests.runtime.task.test_calls_per_record import counted_calls

from tidegate import (
    App,
    Context,
    Json,
    Record,
    TableTopic,
    Topic,
    stores,
)
from tidegate.clock import ManualClock
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.task.task import DECODED_AT_ONCE
from tidegate.serde.plain import IntSerde
from tidegate.testing.driver import Commit, Driver
from tidegate.topology.node import OnError
from tidegate.types import TopicPartition

INT = IntSerde()
MANY = 200
IN = Topic("in", int)
OUT, BYTES = Topic("out", int), Topic("bytes", bytes)
ROWS = TableTopic("rows", str)
CHANGES = TableTopic("changes", int)
TOTALS, LAST = stores.key_value("totals", int), stores.timestamped("last", str)
HEADER = (("by", b"process"),)


def count(record: Record[str, int], ctx: Context[str, int]) -> None:
    totals = ctx.store(TOTALS)
    total = (totals.get(record.key) or 0) + record.value
    totals.put(record.key, total)
    ctx.forward(record.with_value(total))


def to_rows(record: Record[str, int], ctx: Context[str, str | None]) -> None:
    """Some records make no row, some two, some delete one; some have headers of their own."""
    last = ctx.store(LAST)
    if record.value % 5 == 0:
        last.delete(record.key)
        ctx.forward(record.with_value(None))
        return
    for number in range(record.value % 3):
        last.put(record.key, f"{record.value}.{number}", record.timestamp)
        headers = HEADER if record.value % 7 == 0 else record.headers
        ctx.forward(Record(f"{record.key}{number}", f"{record.value} é", record.timestamp + number, headers))


def counted(app: App) -> None:
    app.stream(IN).process("count", count, stores=[TOTALS]).to(OUT)


def rows(app: App) -> None:
    app.stream(IN).process("rows", to_rows, stores=[LAST]).to(ROWS)


def to_bytes(app: App) -> None:
    app.stream(IN).process("count", count, stores=[TOTALS]).map(
        lambda n: n.to_bytes(8, "big", signed=True)
    ).to(BYTES)


def fails(app: App) -> None:
    def refuse(number: int) -> int:
        if number % 13 == 0:
            raise ValueError("unlucky")
        return number

    app.stream(IN).process("count", count, stores=[TOTALS]).map(refuse).to(OUT)


def with_timers(app: App) -> None:
    """The first large numbers schedule timers, in the middle of a batch."""

    class Step:
        def __init__(self) -> None:
            self.scheduled = 0

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            if record.value > 25 and self.scheduled < 2:
                self.scheduled += 1
                ctx.schedule(7, lambda now: ctx.forward(Record("timer", now, now)))
            ctx.forward(record)

    app.stream(IN).process("step", Step).to(OUT)


def two_sinks(app: App) -> None:
    """Both write to one topic, in the order of the records."""
    counts = app.stream(IN).process("count", count, stores=[TOTALS])
    counts.to(OUT)
    counts.map(lambda total: -total).to(OUT)


def of_table(app: App) -> None:
    def step(record: Record[str, int | None], ctx: Context[str, int]) -> None:
        ctx.forward(record.with_value(-1 if record.value is None else record.value))

    app.stream(CHANGES).process("step", step).to(OUT)


NEVER_FAIL = [counted, rows, to_bytes, with_timers, two_sinks]
sent = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(-3, 30), st.integers(0, 50)), min_size=1, max_size=20
)


def outcome(
    declare: Callable[[App], None], records: list[tuple[str, int, int]], policy: OnError, *, batches: bool
) -> Any:
    app = App("app")
    declare(app)
    with Driver(app, partitions=2, batches=batches, on_error=policy) as driver:
        driver.run()
        for turn in range(2):
            rows = [
                Row(
                    f"{key}{repeated % 5}".encode(),
                    INT.encode(value),
                    START + turn * 60 + repeated + at,
                    (("h", b"1"),) if value == 3 else (),
                )
                for repeated in range(MANY // len(records) + 1)
                for key, value, at in records
            ]
            # A task that schedules a timer ends its turn, so others come to theirs earlier: only one task.
            for number in range(1 if declare is with_timers else 2):
                driver.log.append(TopicPartition("in", number), to_batch(rows))
            driver.run()
        driver.assert_stores_match_changelogs()
        topics = [name for name in driver.log.names() if not name.endswith(("-control", "-positions"))]
        return committed(driver, topics)


@pytest.mark.parametrize("declare", NEVER_FAIL, ids=lambda declare: declare.__name__)
@settings(max_examples=6, deadline=None)
@given(records=sent)
def test_both_ways_commit_the_same_bytes(
    declare: Callable[[App], None], records: list[tuple[str, int, int]]
) -> None:
    together = outcome(declare, records, "stop", batches=True)
    assert together == outcome(declare, records, "stop", batches=False)


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
@pytest.mark.parametrize("declare", [counted, rows, fails, with_timers], ids=lambda declare: declare.__name__)
@settings(max_examples=4, deadline=None)
@given(records=sent)
def test_both_ways_apply_policies_to_the_same_records(
    policy: OnError, declare: Callable[[App], None], records: list[tuple[str, int, int]]
) -> None:
    together = outcome(declare, records, policy, batches=True)
    assert together == outcome(declare, records, policy, batches=False)


def test_a_table_that_is_read_as_a_stream_has_deleted_rows() -> None:
    app = App("app")
    of_table(app)
    with Driver(app) as d:
        d.send(CHANGES, "ada", *[1, None] * MANY)
        d.run()
        assert d.values(OUT) == [1, -1] * MANY


class Doubled(Json[int]):
    """Reads twice the number that it wrote."""

    def decode(self, data: bytes) -> int:
        return 2 * super().decode(data)


class Twice:
    """A mixin."""

    def decode(self, data: bytes) -> int:
        return 2 * super().decode(data)  # type: ignore[misc, no-any-return]


class Mixed(Twice, Json[int]):
    """Does not define `decode` itself."""


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("serde", [Doubled(), Mixed()])
def test_a_serde_that_changes_how_one_value_is_read_is_asked_for_each(
    serde: Json[int], batches: bool
) -> None:
    source = Topic("doubled", serde)
    app = App("app")
    app.stream(source).process("count", count, stores=[TOTALS]).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(source, "ada", *[1] * MANY)
        d.run()
        assert d.values(OUT) == list(range(2, 2 * MANY + 2, 2))


class Short(Json[int]):
    """Forgets a value when it reads many."""

    def decode_many(self, data: Sequence[bytes]) -> list[int]:
        return super().decode_many(data)[1:]


def test_a_serde_that_forgets_a_value_among_many_loses_no_record() -> None:
    source = Topic("short", Short())
    app = App("app")
    app.stream(source).process("count", count, stores=[TOTALS]).to(OUT)
    with Driver(app) as d:
        d.send(source, "ada", *[1] * MANY)
        d.run()
        assert d.values(OUT) == list(range(1, MANY + 1))


def test_a_timer_that_is_cancelled_at_once_does_not_end_the_turn() -> None:
    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.schedule(1, lambda _: None).cancel()
        ctx.forward(record)

    app = App("app")
    app.stream(IN).process("step", step).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", *range(MANY))
        d.run()
        assert d.values(OUT) == list(range(MANY))
        assert d.reached["commit.2"] <= 2


@pytest.mark.parametrize("at", [0, DECODED_AT_ONCE - 1, DECODED_AT_ONCE])
def test_a_timer_that_any_record_of_a_long_turn_schedules_is_called_in_time(at: int) -> None:
    calls: list[int] = []

    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        if record.value == at:
            ctx.schedule(7, calls.append)

    app = App("app")
    app.stream(IN).process("step", step)
    clock, count = ManualClock(), 2 * DECODED_AT_ONCE
    with closing(SqliteLog(clock=clock)) as log, TemporaryDirectory() as folder:
        run = prepare(app.build(), log, clock, partitions=1)
        rows = [Row(b"ada", INT.encode(number), START + number) for number in range(count)]
        log.append(TopicPartition("in", 0), to_batch(rows))
        [slot] = run.slots(Path(folder), 1)
        slot.records_per_step = 2 * count
        while slot.step() or slot.restoring:
            slot.commit()
        slot.close()
    assert calls == list(range(START + at + 7, START + count, 7))


def test_a_gate_takes_its_events_in_batches() -> None:
    app = App("app")
    app.stream(IN).gate("door").to(OUT)
    with Driver(app) as d, counted_calls() as calls:
        d.send(IN, "ada", *range(MANY))
        d.run()
        assert d.values(OUT) == list(range(MANY))
    assert calls["GateBatches.run"]
    assert calls["RecordLoop.process"] == 0


def test_a_crash_after_a_step_scheduled_a_timer_loses_nothing() -> None:
    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        if record.value == 10:
            ctx.schedule(1 << 40, lambda _: None)
        ctx.forward(record)

    app = App("app")
    app.stream(IN).process("step", step).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", *range(MANY))
        d.crash(at=Commit.OUTPUTS)
        d.run()
        assert d.values(OUT) == list(range(MANY))


@pytest.mark.parametrize("batches", [True, False])
def test_headers_that_are_changed_after_the_forward_are_written_as_they_were(batches: bool) -> None:
    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        headers: Any = [("n", str(record.value).encode())]
        ctx.forward(Record(record.key, record.value, record.timestamp, headers))
        headers.append(("later", b""))

    app = App("app")
    app.stream(IN).process("step", step).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        d.run()
        assert [record.headers for record in d.records(OUT)] == [
            (("n", str(n).encode()),) for n in range(MANY)
        ]


@pytest.mark.parametrize("batches", [True, False])
def test_outputs_of_init_and_of_timers_are_sent_in_their_order(batches: bool) -> None:
    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            ctx.forward(Record("init", -1, START))
            ctx.schedule(1000, lambda _: ctx.forward(Record("timer", -2, START)), by="wall")

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            ctx.forward(record)

    app = App("app")
    app.stream(IN).process("step", Step).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        d.run()
        d.advance(5000)
        d.run()
        assert d.values(OUT) == [-1, *range(MANY), -2]


def test_a_crash_at_any_step_of_a_commit_loses_and_repeats_nothing() -> None:
    app = App("app")
    counted(app)
    with Driver(app) as d:
        for step in Commit:
            d.send(IN, "ada", *[1] * MANY)
            d.crash(at=step)
            d.run()
            d.run()
        assert d.values(OUT) == list(range(1, len(Commit) * MANY + 1))
        d.assert_stores_match_changelogs()
