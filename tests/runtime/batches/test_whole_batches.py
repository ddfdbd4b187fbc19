"""Whole batches give what single records give, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.task.batch_chain import batch_chain
from tidegate.testing.driver import Driver
from tidegate.types import TopicPartition

NUMBERS = Topic("numbers", int)
TEXTS = Topic("texts", str)
TOTALS = TableTopic("totals", int)


def count(app: App) -> None:
    app.stream(NUMBERS).count("counts").to(TOTALS)


def total_of_large_ones(app: App) -> None:
    app.stream(NUMBERS).filter(lambda n: n > 2).map(_double).sum("sums", _same).to(TOTALS)


def total(app: App) -> None:
    app.stream(NUMBERS).sum("sums", _same).to(TOTALS)


def total_of_halves(app: App) -> None:
    """The sums of some batches are floats and ints, and of some are not what the store takes."""
    app.stream(NUMBERS).sum("sums", _half).to(TOTALS)


def largest(app: App) -> None:
    app.stream(NUMBERS).reduce("largest", max).filter(lambda n: n % 2 == 0).to(TOTALS)


def fails_late(app: App) -> None:
    """The store has the new row when a later step fails."""
    app.stream(NUMBERS).sum("sums", _same).map(_not_thirteen).to(TOTALS)


def by_digit(app: App) -> None:
    grouped = app.stream(NUMBERS).flat_map(_digits).group_by("by-digit", str)
    grouped.aggregate("seen", int, lambda total, digit: total + digit + 1).map(_double).to(TOTALS)


def to_text(app: App) -> None:
    app.stream(NUMBERS).select_key(str).map(_text).to(TEXTS)


def _double(number: int) -> int:
    return number * 2


def _half(number: int) -> int:
    return number // 2 if number % 3 else number / 2  # type: ignore[return-value]


def _not_thirteen(number: int) -> int:
    if number % 13 == 0:
        raise ValueError("unlucky")
    return number


def _same(number: int) -> int:
    return number


def _digits(number: int) -> list[int]:
    return [int(digit) for digit in str(abs(number))]


def _text(number: int) -> str:
    if number == 13:
        raise ValueError("unlucky")
    return f"n{number}"


TOPOLOGIES = [count, total_of_large_ones, largest, fails_late, by_digit, to_text]
records = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 30), st.integers(0, 50)), max_size=30)


def committed(driver: Driver, topics: list[str]) -> dict[str, list[ReadRow]]:
    found = {}
    for topic in topics:
        for number in range(driver.log.describe(topic).partitions):
            partition = TopicPartition(topic, number)
            end = driver.log.ends([partition])[partition]
            batches = read_between(driver.log, partition, 0, end)
            found[str(partition)] = [row for batch in batches for row in rows_of(batch)]
    return found


def outcome(declare: Callable[[App], None], sent: list[tuple[str, int, int]], *, batches: bool) -> Any:
    app = App("app")
    declare(app)
    with Driver(app, partitions=2, batches=batches, on_error="dead-letter") as driver:
        driver.run()
        for number, (key, value, at) in enumerate(sent):
            driver.send(NUMBERS, key, value, timestamp=1_600_000_000_000 + at)
            if number % 10 == 9:
                driver.run()
        driver.run()
        topics = [name for name in driver.log.names() if name != "numbers"]
        return committed(driver, [name for name in topics if not name.endswith(("-control", "-positions"))])


@pytest.mark.parametrize("declare", [*TOPOLOGIES, total_of_halves], ids=lambda declare: declare.__name__)
@settings(max_examples=12, deadline=None)
@given(sent=records)
def test_both_paths_commit_the_same_bytes(
    declare: Callable[[App], None], sent: list[tuple[str, int, int]]
) -> None:
    assert outcome(declare, sent, batches=True) == outcome(declare, sent, batches=False)


LIMITS = [2**63 - 1, -(2**63), 2**62, -(2**62), 1, -1, 0]


@settings(max_examples=40, deadline=None)
@given(sent=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(LIMITS), st.just(0)), max_size=20))
@example(sent=[("a", 2**63 - 1, 0), ("b", 2**63 - 1, 0)])  # only the sum over both keys is too large
@example(sent=[("a", 2**62, 0), ("a", 2**62, 0), ("a", -1, 0)])
def test_sums_near_64_bits_are_those_of_single_records(sent: list[tuple[str, int, int]]) -> None:
    assert outcome(total, sent, batches=True) == outcome(total, sent, batches=False)


@pytest.mark.parametrize("declare", TOPOLOGIES, ids=lambda declare: declare.__name__)
def test_these_topologies_do_run_in_batches(declare: Callable[[App], None]) -> None:
    app = App("app")
    declare(app)
    topology = app.build()

    assert all(batch_chain(topology, sub) is not None for sub in topology.subtopologies())


@pytest.mark.parametrize("declare", TOPOLOGIES, ids=lambda declare: declare.__name__)
def test_records_that_pass_are_never_run_one_by_one(declare: Callable[[App], None]) -> None:
    """Record by record is also what a broken batch step would come to, with the right result."""
    app = App("app")
    declare(app)
    clock = ManualClock()
    with closing(SqliteLog(clock=clock)) as log, TemporaryDirectory() as folder:
        run = prepare(app.build(), log, clock, partitions=2)
        connection = Connection(log, partitions=2, clock=clock)
        for number in range(12):
            connection.send(NUMBERS, "abcd"[number % 4], number // 4 + 1)
        [slot] = run.slots(Path(folder), 1)
        while slot.step() or slot.restoring:
            slot.commit()
        assert slot.processed >= 12
        assert [task.batches_taken_apart for task in slot.tasks] == [0] * len(slot.tasks)
        slot.close()


@pytest.mark.parametrize("declare", TOPOLOGIES, ids=lambda declare: declare.__name__)
def test_batches_of_any_size_commit_the_same_bytes(declare: Callable[[App], None]) -> None:
    def outcome(small: int) -> Any:
        app = App("app")
        declare(app)
        clock = ManualClock()
        with closing(SqliteLog(clock=clock)) as log, TemporaryDirectory() as folder:
            run = prepare(app.build(), log, clock, partitions=1, on_error="skip")
            connection = Connection(log, partitions=1, clock=clock)
            [slot] = replace(run, context=replace(run.context, small_batch=small)).slots(Path(folder), 1)
            for turn, count in enumerate((1, 9, 2, 30, 10, 3)):
                connection.send(NUMBERS, "abcd"[turn % 4], *(number % 6 + 1 for number in range(count)))
                while slot.step() or slot.restoring:
                    slot.commit()
            slot.close()
            written = [
                name for name in log.names() if not name.endswith(("-positions", "-control", "-status"))
            ]
            return {name: everything(log, name) for name in written}

    found = outcome(10)
    assert found == outcome(0) == outcome(1_000)
    assert sum(len(rows) for name, rows in found.items() if name != "numbers") > 10


def everything(log: SqliteLog, topic: str) -> list[Any]:
    partition = TopicPartition(topic, 0)
    return [
        row
        for batch in read_between(log, partition, 0, log.ends([partition])[partition])
        for row in rows_of(batch)
    ]


def test_keys_with_headers_of_their_own_come_out_the_same_both_ways() -> None:
    def both(*, batches: bool) -> Any:
        app = App("app")
        by_digit(app)
        with Driver(app, partitions=2, batches=batches) as driver:
            for number in range(20):
                own = [("trace", b"%d" % number), ("empty", None)] if number % 3 else []
                driver.send(NUMBERS, f"k{number % 4}", number, headers=own)
            driver.run()
            return committed(driver, ["app-by-digit-repartition", "totals", "app-seen-changelog"])

    found = both(batches=True)
    assert found == both(batches=False)
    assert sum(map(len, found.values())) >= 3 * 20


def test_a_fork_or_user_code_with_stores_runs_record_by_record() -> None:
    app = App("app")
    numbers = app.stream(NUMBERS)
    numbers.count("counts").to(TOTALS)
    numbers.map(_text).to(TEXTS)
    topology = app.build()
    assert [batch_chain(topology, sub) for sub in topology.subtopologies()] == [None]
