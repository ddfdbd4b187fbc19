"""Stream time behind an internal topic goes on though no record comes through."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runtime.stories import START

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.log.kafka import zero_time
from tidegate.log.reads import read_between
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.runtime.output.origin import ORIGIN, origin_of
from tidegate.runtime.output.time_only import TIME
from tidegate.testing.driver import Commit, Driver
from tidegate.types import TopicPartition

IN, OUT = Topic("in", int), Topic("out", str)
ROWS, TOTALS = TableTopic("rows", int), TableTopic("totals", int)
TIMERS = stores.timers("timers")
SECOND = 1_000
BOTH_WAYS = pytest.mark.parametrize("batches", [False, True], ids=["record by record", "whole batches"])


class Remind:
    """Says each record, and each again 50 ms of stream time later."""

    def process(self, record: Record[str, int], ctx: Context[str, str]) -> None:
        ctx.store(TIMERS).set(record.key, record.timestamp + 50)
        ctx.forward(Record(record.key, f"{record.value}", record.timestamp))

    def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
        ctx.forward(Record(key, f"{key} due {at - START}", at))


def even(value: int) -> bool:
    return value % 2 == 0


def reminding(partitions: int = 2) -> App:
    app = App("app")
    passing = app.stream(IN).filter(even).repartition("even", partitions=partitions)
    passing.process("remind", Remind, stores=[TIMERS]).to(OUT)
    return app


def send(d: Driver, *sent: tuple[int, int]) -> None:
    for value, at in sent:
        d.send(IN, "ada", value, timestamp=START + at)


def times_sent(d: Driver, topic: str = "app-even-repartition") -> list[list[int]]:
    """The times of time-only records, by partition."""
    found: list[list[int]] = []
    for number in range(d.log.describe(topic).partitions):
        partition = TopicPartition(topic, number)
        rows = [
            row
            for batch in read_between(d.log, partition, 0, d.log.ends([partition])[partition])
            for row in rows_of(batch)
            if any(name == TIME for name, _ in row.headers)
        ]
        assert all((row.key, row.value) == (None, None) for row in rows)
        assert all([name for name, _ in row.headers] == [ORIGIN, TIME] for row in rows)
        origins = [origin_of(row.headers) for row in rows]
        assert [row.timestamp for row in rows] == [origin.time for origin in origins if origin]
        found.append([row.timestamp - START for row in rows])
    return found


def test_time_goes_on_behind_a_filter_that_drops_everything() -> None:
    with Driver(reminding()) as d:
        send(d, (2, 0), (3, 100))
        d.run()
        assert (d.values(OUT), times_sent(d)) == (["2"], [[], []])
        d.advance(SECOND - 1)
        d.run()
        assert (d.values(OUT), times_sent(d)) == (["2"], [[], []])
        d.advance(1)
        d.run()
        assert (d.values(OUT), times_sent(d)) == (["2", "ada due 50"], [[100], [100]])


def test_time_is_sent_once_a_second_at_most_and_only_if_it_is_new() -> None:
    with Driver(reminding()) as d:
        d.run()
        for turn in range(1, 8):
            send(d, (3, 100 * turn))
            d.advance(400)
            d.run()
        assert times_sent(d) == [[300, 600], [300, 600]]
        for _ in range(3):
            d.advance(10 * SECOND)
            d.run()
        assert times_sent(d) == [[300, 600, 700], [300, 600, 700]]
        commits = d.reached["commit.2"]
        for _ in range(3):
            d.advance(10 * SECOND)
            d.run()
        assert d.reached["commit.2"] == commits


def test_a_record_that_passes_carries_the_time_itself() -> None:
    with Driver(reminding(partitions=1)) as d:
        send(d, (2, 100))
        d.run()
        d.advance(SECOND)
        d.run()
        send(d, (3, 90), (4, 200))
        d.advance(SECOND)
        d.run()
        d.advance(SECOND)
        d.run()
        assert times_sent(d) == [[]]


@BOTH_WAYS
def test_records_of_whole_batches_carry_the_time_themselves(batches: bool) -> None:
    app = App("app")
    app.stream(IN).filter(even).repartition("even", partitions=1).count("counts").to(TOTALS)
    with Driver(app, batches=batches) as d:
        send(d, (2, 100))
        d.run()
        d.advance(SECOND)
        send(d, (4, 200))
        d.run()
        d.advance(SECOND)
        d.run()
        assert times_sent(d) == [[]]
        send(d, (4, 300), (3, 400))
        d.run()
        assert times_sent(d) == [[400]]


def test_a_time_that_was_sent_before_a_restart_is_not_sent_again() -> None:
    with Driver(reminding()) as d:
        send(d, (2, 0), (3, 100))
        d.run()
        d.move()
        d.advance(SECOND)
        d.run()
        assert times_sent(d) == [[], []]
        d.advance(SECOND)
        d.run()
        assert times_sent(d) == [[100], [100]]
        d.move()
        for _ in range(3):
            d.run()
            d.advance(SECOND)
        assert times_sent(d) == [[100], [100]]
        assert d.values(OUT) == ["2", "ada due 50"]


@pytest.mark.parametrize("at", list(Commit))
@pytest.mark.parametrize("arrival", [1, 2])
def test_a_crash_on_the_way_leaves_every_output_once(at: Commit, arrival: int) -> None:
    with Driver(reminding()) as d:
        send(d, (2, 0), (3, 100))
        d.run()
        d.advance(SECOND)
        d.crash(at, arrival)
        d.run()
        d.advance(SECOND)
        d.run()
        assert d.values(OUT) == ["2", "ada due 50"]
        assert times_sent(d) == [[100], [100]]
        d.assert_stores_match_changelogs()


def test_time_goes_through_one_internal_topic_after_the_other() -> None:
    app = App("app")
    first = app.stream(IN).filter(even).repartition("even")
    first.filter(even).repartition("again").process("remind", Remind, stores=[TIMERS]).to(OUT)
    with Driver(app) as d:
        send(d, (2, 0), (3, 100))
        d.run()
        d.advance(SECOND)
        d.run()
        assert d.values(OUT) == ["2", "ada due 50"]
        assert times_sent(d, "app-again-repartition") == [[100]]


def stream_times(d: Driver) -> list[int]:
    return [task.stream_time - START for slot in d._open for task in slot.tasks]


@BOTH_WAYS
def test_a_task_of_whole_batches_takes_the_time_and_nothing_else(batches: bool) -> None:
    app = App("app")
    app.stream(IN).filter(even).repartition("even").count("counts").to(TOTALS)
    with Driver(app, batches=batches) as d:
        send(d, (2, 0), (3, 100))
        d.run()
        assert stream_times(d) == [100, 0]
        d.advance(SECOND)
        send(d, (4, 50), (3, 200))
        d.run()
        assert (times_sent(d), stream_times(d)) == ([[200]], [200, 200])
        assert d.values(TOTALS) == [1, 2]
        d.move()
        d.run()
        assert stream_times(d) == [200, 200]


@BOTH_WAYS
def test_no_step_gets_a_time_only_record(batches: bool) -> None:
    seen: list[Any] = []

    def look(value: int) -> str:
        seen.append(value)
        return f"{value}"

    app = App("app")
    app.stream(IN).filter(even).repartition("even", partitions=1).map(look).to(OUT)
    with Driver(app, batches=batches) as d:
        send(d, (2, 0), (3, 100))
        d.run()
        d.advance(SECOND)
        d.run()
        assert (times_sent(d), stream_times(d)) == ([[100]], [100, 100])
        assert (seen, d.values(OUT)) == ([2], ["2"])


def test_a_grouped_table_and_a_join_take_the_time_and_nothing_else() -> None:
    app = App("app")
    rows = app.table(ROWS)
    rows.filter(even).group_by("by-value", lambda value: f"v{value}").count("counts").to(TOTALS)
    moved = app.stream(IN).filter(even).repartition("even")
    moved.left_join(rows, lambda one, two: f"{one}&{two}").to(OUT)
    with Driver(app) as d:
        d.send(ROWS, "ada", 2, timestamp=START)
        send(d, (2, 10), (3, 100))
        d.send(ROWS, "bob", 3, timestamp=START + 100)
        d.run()
        d.advance(SECOND)
        d.run()
        assert times_sent(d) == times_sent(d, "app-by-value-repartition") == [[100]]
        assert (d.rows(TOTALS), d.values(OUT)) == ({"v2": 1}, ["2&2"])
        assert set(stream_times(d)) == {100}


@BOTH_WAYS
def test_the_mark_counts_only_behind_internal_topics(batches: bool) -> None:
    with Driver(reminding(), batches=batches) as d:
        send(d, (2, 0))
        row: Any = Row(b"bob", IN.encode_value(4), START, ((TIME, b""),))
        d.log.append(TopicPartition("in", 0), to_batch([row]))
        d.run()
        assert sorted(d.values(OUT)) == ["2", "4"]


@BOTH_WAYS
def test_a_record_of_time_0_is_no_mark(batches: bool) -> None:
    """On Kafka it has a header of the same name, which stays if a broker replaced the time."""
    with Driver(reminding(), batches=batches) as d:
        send(d, (2, 0))
        d.run()
        places = [TopicPartition("app-even-repartition", number) for number in range(2)]
        place, end = next((place, end) for place, end in d.log.ends(places).items() if end)
        first = next(row for batch in read_between(d.log, place, 0, end) for row in rows_of(batch))
        headers: Any = (*first.headers, zero_time.MARK)
        d.log.append(place, to_batch([Row(first.key, IN.encode_value(6), START, headers)] * 3))
        d.run()
        assert d.values(OUT) == ["2", "6", "6", "6"]


def test_an_outcome_leaves_out_time_only_records() -> None:
    with Driver(reminding()) as d:
        send(d, (3, 100))
        d.run()
        d.advance(SECOND)
        d.run()
        assert times_sent(d) == [[100], [100]]
        assert d.outcome().topics["app-even-repartition"] == [[], []]
