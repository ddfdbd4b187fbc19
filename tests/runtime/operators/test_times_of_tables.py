"""The time of a table's row is the largest of the records that made it, as in Kafka Streams."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate import App, TableTopic, Topic, stores
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.record import Record
from tidegate.runtime.driver.prepare import prepare
from tidegate.state.manager import Limits
from tidegate.testing.driver import Driver
from tidegate.testing.views import Discards

T = 1_700_000_000_000
IN = Topic("in", int)
OUT = TableTopic("out", int)
LEFT, RIGHT = TableTopic("left", int), TableTopic("right", int)

both_paths = pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "record by record"])


def made(d: Driver, topic: Any = OUT) -> list[tuple[Any, Any, int]]:
    """Key, value and time, counted from T, in the order in which they were sent."""
    records = sorted(d.records(topic), key=lambda record: record.offset)
    return [(record.key, record.value, record.timestamp - T) for record in records]


def largest(one: int, two: int) -> int:
    return max(one, two)


def nothing_below_zero(total: int, value: int) -> int | None:
    return total + value if total + value >= 0 else None


def plus(one: int, two: int | None) -> int:
    return one + (two or 0)


@both_paths
@pytest.mark.parametrize("at_once", [1, 9])
def test_an_aggregate_never_goes_back_in_time(batches: bool, at_once: int) -> None:
    app = App("times")
    app.stream(IN).reduce("made", largest).to(OUT)
    with Driver(app, batches=batches) as d:
        for number, (key, value, at) in enumerate(
            [("a", 1, 50), ("b", 5, 10), ("a", 2, 20), ("a", 3, 60), ("b", 6, 5), ("a", 4, 40)]
        ):
            d.send(IN, key, value, timestamp=T + at)
            if number % at_once == at_once - 1:
                d.run()
        d.run()
        assert made(d) == [
            ("a", 1, 50), ("b", 5, 10), ("a", 2, 50), ("a", 3, 60), ("b", 6, 10), ("a", 4, 60)
        ]  # fmt: skip


@both_paths
def test_a_row_that_was_deleted_is_forgotten_with_its_time(batches: bool) -> None:
    app = App("times")
    app.stream(IN).aggregate("made", int, nothing_below_zero, value=int).to(OUT)  # type: ignore[arg-type]
    with Driver(app, batches=batches) as d:
        for value, at in ((1, 50), (-5, 30), (2, 10), (3, 5)):
            d.send(IN, "a", value, timestamp=T + at)
        d.run()
        assert made(d) == [("a", 1, 50), ("a", None, 50), ("a", 2, 10), ("a", 5, 10)]


@both_paths
@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=12), st.integers(1, 5))
def test_the_times_of_a_count_equal_a_recompute_over_restarts(
    batches: bool, sent: list[tuple[str, int]], at_once: int
) -> None:
    app = App("times")
    app.stream(IN).count("made").to(OUT)
    expected, newest, counts = [], {"a": 0, "b": 0}, {"a": 0, "b": 0}
    with Driver(app, batches=batches) as d:
        for number, (key, at) in enumerate(sent):
            d.send(IN, key, 0, timestamp=T + at)
            newest[key], counts[key] = max(newest[key], at), counts[key] + 1
            expected.append((key, counts[key], newest[key]))
            if number % at_once == 0:
                d.run()
                d.move()
        d.run()
        assert made(d) == expected
        d.assert_stores_match_changelogs()


def test_a_table_join_has_the_larger_time_of_both_rows() -> None:
    app = App("times")
    left, right = app.table(LEFT), app.table(RIGHT)
    left.left_join(right, plus).to(OUT)
    mapped = TableTopic("mapped", int)
    left.join(right.map(abs).filter(bool), plus).to(mapped)
    with Driver(app) as d:
        for topic, value, at in (
            (LEFT, 1, 10), (RIGHT, 10, 5), (LEFT, 2, 3), (RIGHT, 20, 40), (LEFT, 3, 20), (RIGHT, None, 15),
            (LEFT, 4, 12), (RIGHT, 0, 99), (LEFT, 5, 1),
        ):  # fmt: skip
            d.send(topic, "a", value, timestamp=T + at)
            d.run()
        times = [(value, at) for _, value, at in made(d)]
        assert times == [(1, 10), (11, 10), (12, 5), (22, 40), (23, 40), (3, 20), (4, 12), (4, 99), (5, 99)]
        times = [(value, at) for _, value, at in made(d, mapped)]
        assert times == [(11, 10), (12, 5), (22, 40), (23, 40), (None, 20)]


def test_a_grouped_table_has_the_largest_time_of_its_group() -> None:
    app = App("times")
    app.table(LEFT).group_by("by-sign", lambda value: "+" if value > 0 else "-").count("made").to(OUT)
    with Driver(app) as d:
        for key, value, at in (("a", 1, 50), ("b", 1, 20), ("a", -1, 30), ("b", 2, 10)):
            d.send(LEFT, key, value, timestamp=T + at)
            d.run()
        assert made(d) == [("+", 1, 50), ("+", 2, 50), ("+", 1, 50), ("-", 1, 30), ("+", 1, 50)]


def later(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key, record.value, record.timestamp + 7, record.headers)


def test_the_time_that_a_step_set_counts() -> None:
    app = App("times")
    app.stream(IN).map_records(later).repartition("again").count("made").to(OUT)
    with Driver(app) as d:
        d.send(IN, "a", 1, timestamp=T)
        d.run()
        assert made(d) == [("a", 1, 7)]


@both_paths
@pytest.mark.parametrize(
    ("store", "times"),
    [(stores.timestamped("made", int), [50, 50]), (stores.in_memory("made", int), [50, 20])],
    ids=["with times", "without"],
)
def test_a_store_that_was_passed_keeps_times_if_it_can(batches: bool, store: Any, times: list[int]) -> None:
    app = App("times")
    app.stream(IN).count(store).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "a", 1, timestamp=T + 50)
        d.send(IN, "a", 1, timestamp=T + 20)
        d.run()
        assert [(value, at) for _, value, at in made(d)] == list(zip([1, 2], times, strict=True))


def counting(store: Any) -> App:
    app = App("times")
    app.stream(IN).count(store).to(OUT)
    return app


def test_rows_on_disk_without_times_are_rebuilt_from_the_changelog(tmp_path: Path) -> None:
    """What a version of tidegate left that did not keep times."""
    clock, reported = ManualClock(), Discards()
    with closing(SqliteLog(clock=clock)) as log:
        connection = Connection(log, partitions=1, clock=clock)
        for store, at in ((stores.key_value("made", int), 50), ("made", 20)):
            connection.send(IN, "a", 1, timestamp=T + at)
            run = prepare(counting(store).build(), log, clock, partitions=1)
            [slot] = run.slots(tmp_path, 1, Limits(), reported)
            while slot.step() or slot.restoring:
                slot.commit()
            slot.close()
        assert len(reported.rebuilt) == 1
        assert "made, partition 0: its rows have the layout of an older version" in reported.rebuilt[0]
        assert [(record.value, record.timestamp - T) for record in connection.read(OUT)] == [(1, 50), (2, 50)]
