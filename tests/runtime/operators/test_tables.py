"""Steps of tables against a recompute: retractions leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.runtime.stories import FEW, Sent, Story, equal_to_its_changelog, play, rows_of, stories

from tidegate import App, TableTopic
from tidegate.dsl.table import Table
from tidegate.testing.driver import Driver

NUMBERS = st.integers(-9, 9)
ROWS = NUMBERS | st.none()
IN, OTHER, OUT = (TableTopic(name, int) for name in ("in", "other", "out"))
TEXTS = TableTopic("texts", str)


class Bag(Struct, frozen=True):
    """Values with their numbers: takes back what it was given, in any order."""

    counts: dict[str, int] = {}


BAGS = TableTopic("bags", Bag)


def put(bag: Bag, value: int) -> Bag:
    return Bag({**bag.counts, str(value): bag.counts.get(str(value), 0) + 1})


def take(bag: Bag, value: int) -> Bag:
    left = {**bag.counts, str(value): bag.counts[str(value)] - 1}
    return Bag({name: count for name, count in left.items() if count})


def name_of(value: int) -> str:
    return f"n{value % 3}"


def half(value: int) -> int:
    return value // 2


@FEW
@given(story=stories(ROWS))
def test_mapped_and_filtered_rows_equal_a_recompute(story: Story) -> None:
    app = App("tables")
    app.table(IN).filter(lambda value: value > 2).map(half).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        rows = rows_of(sent, IN)
        assert d.rows(OUT) == {key: value // 2 for key, value in rows.items() if value > 2}
        assert d.store("in").contents == rows
        assert equal_to_its_changelog(d, "in")

    play(app, [IN], story, check)


def groups(rows: dict[str, int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for value in rows.values():
        found.setdefault(name_of(value), []).append(value)
    return found


SHAPES: dict[str, tuple[Callable[[Table[str, int]], Table[str, int]], Callable[[int], int | None]]] = {
    "all rows": (lambda table: table, lambda value: value),
    "some rows": (lambda table: table.filter(lambda v: v > 0), lambda v: v if v > 0 else None),
    "other values": (lambda table: table.map(half), lambda value: value // 2),
}


@pytest.mark.parametrize("shape", SHAPES)
@FEW
@given(story=stories(ROWS))
def test_a_grouped_count_equals_a_recompute_after_every_run(shape: str, story: Story) -> None:
    build, oracle = SHAPES[shape]
    app = App("tables")
    build(app.table(IN)).group_by("by-name", name_of, partitions=2).count("made").to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        shown = {key: oracle(value) for key, value in rows_of(sent, IN).items()}
        rows = {key: value for key, value in shown.items() if value is not None}
        expected = {name: len(values) for name, values in groups(rows).items()}
        assert d.rows(OUT) == expected
        assert d.store("made").contents == expected
        assert equal_to_its_changelog(d, "made")

    play(app, [IN], story, check)


@FEW
@given(story=stories(ROWS))
def test_a_grouped_sum_equals_a_recompute_and_an_empty_group_sums_up_to_zero(story: Story) -> None:
    app = App("tables")
    app.table(IN).group_by("by-name", name_of).sum("made", half).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected = {name: sum(v // 2 for v in values) for name, values in groups(rows_of(sent, IN)).items()}
        assert {name: total for name, total in d.rows(OUT).items() if total or name in expected} == expected
        assert equal_to_its_changelog(d, "made")

    play(app, [IN], story, check)


@FEW
@given(story=stories(ROWS))
def test_a_grouped_aggregate_takes_back_what_it_added(story: Story) -> None:
    app = App("tables")
    app.table(IN).group_by("by-name", name_of).aggregate("made", Bag, put, take).to(BAGS)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected = {}
        for name, values in groups(rows_of(sent, IN)).items():
            expected[name] = {str(value): values.count(value) for value in values}
        found = {name: bag.counts for name, bag in d.rows(BAGS).items() if bag.counts}
        assert found == expected

    play(app, [IN], story, check)


@FEW
@given(story=stories(ROWS, ROWS))
def test_a_count_over_joined_tables_equals_a_recompute(story: Story) -> None:
    app = App("tables")
    joined = app.table(IN).left_join(app.table(OTHER), plus)
    joined.filter(lambda value: value != 0).group_by("by-name", name_of).count("made").to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        one, two = rows_of(sent, IN), rows_of(sent, OTHER)
        rows = {key: plus(value, two.get(key)) for key, value in one.items()}
        shown = {key: value for key, value in rows.items() if value != 0}
        assert d.rows(OUT) == {name: len(values) for name, values in groups(shown).items()}

    play(app, [IN, OTHER], story, check)


def plus(one: int, two: int | None) -> int:
    return one + (two or 0)


@FEW
@given(story=stories(ROWS))
def test_a_count_of_counts_equals_a_recompute(story: Story) -> None:
    app = App("tables")
    counts = app.table(IN).group_by("by-name", name_of).count("counts")
    counts.group_by("by-count", lambda count: f"{count}").count("made").to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        sizes = [len(values) for values in groups(rows_of(sent, IN)).values()]
        assert d.rows(OUT) == {str(size): sizes.count(size) for size in sizes}

    play(app, [IN], story, check, slots=2)


def test_a_count_of_a_join_of_two_aggregates_of_one_stream_takes_back_each_step() -> None:
    from tidegate import Topic

    events = Topic("events", int)
    app = App("tables")
    stream = app.stream(events)
    joined = stream.count("counts").join(stream.sum("sums", half), plus)
    joined.group_by("by-sum", lambda value: f"{value}").count("made").to(OUT)
    with Driver(app, partitions=2) as d:
        d.send(events, "ada", 4, 6)
        d.send(events, "bob", 2, 2)
        d.run()
        assert d.rows(OUT) == {"7": 1, "4": 1}


OTHER_SIDES: dict[str, tuple[Callable[[Table[str, int]], Table[str, int]], Callable[[int], int | None]]] = {
    "itself": (lambda table: table, lambda value: value),
    "a map of it": (lambda table: table.map(half), lambda value: value // 2),
    "a filter of it": (lambda table: table.filter(lambda v: v > 0), lambda v: v if v > 0 else None),
    "a join of it": (lambda table: table.join(table.map(half), plus), lambda value: value + value // 2),
}


@pytest.mark.parametrize("by", OTHER_SIDES)
@pytest.mark.parametrize("left", [True, False], ids=["left join", "join"])
@FEW
@given(story=stories(ROWS))
def test_a_table_joined_with_itself_takes_back_what_it_sent(by: str, left: bool, story: Story) -> None:
    app = App("tables")
    table = app.table(IN)
    side, oracle = OTHER_SIDES[by]
    joined = table.left_join(side(table), plus) if left else table.join(side(table), plus)
    joined.to(OUT)
    counts = TableTopic("counts", int)
    joined.group_by("by-name", name_of).count("made").to(counts)

    def check(d: Driver, sent: list[Sent]) -> None:
        rows = {key: (value, oracle(value)) for key, value in rows_of(sent, IN).items()}
        expected = {key: plus(*both) for key, both in rows.items() if left or both[1] is not None}
        assert d.rows(OUT) == expected
        assert d.rows(counts) == {name: len(values) for name, values in groups(expected).items()}

    play(app, [IN], story, check)


def test_a_self_join_sends_each_change_once() -> None:
    app = App("tables")
    table = app.table(IN)
    table.join(table.map(half), plus).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 4, 10, None)
        d.run()
        assert d.values(OUT) == [6, 15, None]


@FEW
@given(story=stories(ROWS, ROWS))
def test_a_join_whose_sides_share_one_of_two_tables_takes_back_what_it_sent(story: Story) -> None:
    app = App("tables")
    table, other = app.table(IN), app.table(OTHER)
    joined = table.left_join(other, plus).join(table.map(half), plus)
    joined.to(OUT)
    counts = TableTopic("counts", int)
    joined.group_by("by-name", name_of).count("made").to(counts)

    def check(d: Driver, sent: list[Sent]) -> None:
        one, two = rows_of(sent, IN), rows_of(sent, OTHER)
        expected = {key: plus(value, two.get(key)) + value // 2 for key, value in one.items()}
        assert d.rows(OUT) == expected
        assert d.rows(counts) == {name: len(values) for name, values in groups(expected).items()}

    play(app, [IN, OTHER], story, check)


@pytest.mark.parametrize("batches", [True, False])
def test_an_aggregate_joined_with_a_map_of_itself(batches: bool) -> None:
    from tidegate import Topic

    events = Topic("events", int)
    app = App("tables")
    sums = app.stream(events).sum("sums", half)
    joined = sums.join(sums.map(half), plus)
    joined.to(OUT)
    counts = TableTopic("counts", int)
    joined.group_by("by-value", lambda value: f"{value}").count("made").to(counts)
    with Driver(app, batches=batches) as d:
        d.send(events, "ada", 8, 8)
        d.send(events, "bob", 8)
        d.run()
        assert (d.rows(OUT), d.rows(counts)) == ({"ada": 12, "bob": 6}, {"12": 1, "6": 1})


def test_deleting_a_row_that_was_never_there_sends_nothing() -> None:
    app = App("tables")
    app.table(IN).map(half).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", None)
        d.run()
        assert d.records(OUT) == []
