"""Aggregates whose functions change their state in place, keep references or share what they begin with: they
give what pure functions give, record by record and over whole batches of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.runtime.batches.test_whole_batches import committed

from tidegate import App, Json, TableTopic, Topic, stores
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import Table
from tidegate.testing.driver import Driver

IN = Topic("in", int)
LISTS = TableTopic("lists", list[int])
SIZES = TableTopic("sizes", int)
BASKETS = Topic("baskets", list[int])
ROWS = TableTopic("rows", int)


def add(seen: list[int], value: int) -> list[int]:
    return [*seen, value]


def add_in_place(seen: list[int], value: int) -> list[int]:
    seen.append(value)
    return seen


def add_and_hide(seen: list[int], value: int) -> list[int]:
    """Changes the old state, and returns another object."""
    seen.append(value)
    return list(seen)


class KeepsAll:
    """Changes what it returned before, whenever it is called again."""

    def __init__(self) -> None:
        self.returned: list[list[int]] = []

    def __call__(self, seen: list[int], value: int) -> list[int]:
        for one in self.returned:
            one.append(-1)
        self.returned.append([*seen, value])
        return self.returned[-1]


SHARED: list[int] = []


def shared() -> list[int]:
    return SHARED


class Bag(Struct, frozen=True):
    """Frozen, and yet it can be changed inside."""

    values: list[int] = []


def into_bag(bag: Bag, value: int) -> Bag:
    bag.values.append(value)
    return bag


def size(values: list[int]) -> int:
    return len(values)


def size_text(values: list[int]) -> str:
    return f"{len(values)}"


def bag_size(bag: Bag) -> int:
    return len(bag.values)


def joined(one: list[int], two: list[int]) -> list[int]:
    return one + two


def joined_in_place(one: list[int], two: list[int]) -> list[int]:
    one += two
    return one


Build = Callable[[Stream[str, int]], Table[str, Any]]
PURE: Build = lambda s: s.aggregate("made", list[int], add)  # noqa: E731 - one of a kind with those below
IMPURE: dict[str, Build] = {
    "in place": lambda s: s.aggregate("made", list[int], add_in_place),
    "in place, another object": lambda s: s.aggregate("made", list[int], add_and_hide),
    "keeps references": lambda s: s.aggregate("made", list[int], KeepsAll()),
    "shares what it begins with": lambda s: s.aggregate("made", shared, add_in_place),
    "in memory": lambda s: s.aggregate(stores.in_memory("made", Json[list[int]]()), list[int], add_in_place),
}
ENDS: dict[str, Callable[[Table[str, Any]], None]] = {
    "a sink": lambda table: table.to(LISTS),
    "a mapped sink": lambda table: table.map(size).to(SIZES),
    "a count by size": lambda table: table.group_by("by-size", size_text).count("n").to(SIZES),
}
records = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=25)


def outcome(build: Build, end: str, sent: list[tuple[str, int]], *, batches: bool, at_once: int = 7) -> Any:
    SHARED.clear()
    app = App("app")
    ENDS[end](build(app.stream(IN)))
    with Driver(app, partitions=2, batches=batches) as driver:
        driver.run()
        for number, (key, value) in enumerate(sent):
            driver.send(IN, key, value, timestamp=1_600_000_000_000 + number)
            if number % at_once == at_once - 1:
                driver.run()
        driver.run()
        driver.assert_stores_match_changelogs()
        others = ("in", "-control", "-positions", "-changelog")  # a changelog depends on commits
        return committed(driver, [name for name in driver.log.names() if not name.endswith(others)])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("impure", IMPURE)
@settings(max_examples=3, deadline=None)
@given(sent=records)
def test_an_impure_aggregate_computes_what_a_pure_one_computes(
    impure: str, end: str, sent: list[tuple[str, int]]
) -> None:
    expected = outcome(PURE, end, sent, batches=False)
    for batches in (False, True):
        assert outcome(IMPURE[impure], end, sent, batches=batches) == expected, f"batches={batches}"
    assert outcome(IMPURE[impure], end, sent, batches=True, at_once=100) == expected


@pytest.mark.parametrize("batches", [True, False])
def test_a_frozen_state_that_is_changed_inside_is_taken_back_as_it_was(batches: bool) -> None:
    app = App("app")
    bags = app.stream(IN).aggregate("made", Bag, into_bag)
    bags.group_by("by-size", lambda bag: f"{bag_size(bag)}").count("n").to(SIZES)
    with Driver(app, batches=batches) as d:
        d.send(IN, "a", 1, 2, 3)
        d.send(IN, "b", 1)
        d.run()
        assert d.rows(SIZES) == {"3": 1, "1": 1}


@pytest.mark.parametrize("batches", [True, False])
def test_a_reducer_that_changes_its_first_value_in_place_sends_each_step(batches: bool) -> None:
    app = App("app")
    app.stream(BASKETS).reduce("made", joined_in_place).to(LISTS)
    with Driver(app, batches=batches) as d:
        d.send(BASKETS, "a", [1], [2], [3])
        d.run()
        assert d.values(LISTS) == [[1], [1, 2], [1, 2, 3]]


def put(seen: list[int], value: int) -> list[int]:
    seen.append(value)
    return seen


def take(seen: list[int], value: int) -> list[int]:
    seen.remove(value)
    return seen


def test_a_grouped_aggregate_that_works_in_place_takes_back_what_it_added() -> None:
    app = App("app")
    grouped = app.table(ROWS).group_by("by-parity", lambda value: "even" if value % 2 == 0 else "odd")
    made = grouped.aggregate("made", list[int], put, take)
    made.to(LISTS)
    made.group_by("by-size", lambda seen: f"{len(seen)}").count("n").to(SIZES)
    with Driver(app) as d:
        for key, value in (("a", 2), ("b", 4), ("a", 6), ("a", 1), ("b", None)):
            d.send(ROWS, key, value)
            d.run()
        assert d.rows(LISTS) == {"even": [], "odd": [1]}
        assert d.rows(SIZES) == {"0": 1, "1": 1}


@pytest.mark.parametrize("batches", [True, False])
def test_what_goes_on_is_what_the_store_holds_not_what_the_function_returned(batches: bool) -> None:
    """An int where a float is declared: after a restart the next step would get 1.0 for it."""
    app = App("app")
    app.stream(IN).aggregate("made", float, lambda total, value: int(total) + value).map(repr).to(
        TableTopic("shown", str)
    )
    with Driver(app, batches=batches) as d:
        d.send(IN, "a", 1, 2)
        d.run()
        assert d.values(TableTopic("shown", str)) == ["1.0", "3.0"]


def test_two_tables_behind_one_impure_aggregate_see_the_same_rows() -> None:
    """Purity of functions over tables is the user's: each row is decoded for each aggregate step, and given
    to all that follow."""
    app = App("app")
    made = app.stream(IN).aggregate("made", list[int], add_in_place)
    made.to(LISTS)
    made.map(size).to(SIZES)
    with Driver(app) as d:
        d.send(IN, "a", 5, 6)
        d.run()
        assert (d.rows(LISTS), d.rows(SIZES)) == ({"a": [5, 6]}, {"a": 2})
