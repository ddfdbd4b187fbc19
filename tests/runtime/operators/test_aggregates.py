"""Aggregates of streams, and `process`, against plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.runtime.stories import FEW, Sent, Story, equal_to_its_changelog, play, stories

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.dsl.stream import Stream
from tidegate.testing.driver import Driver

NUMBERS = st.integers(-9, 9)
IN = Topic("in", int)
ROWS = TableTopic("rows", int)
OUT = TableTopic("out", int)


class Totals(Struct, frozen=True):
    count: int = 0
    values: tuple[int, ...] = ()


LISTS = TableTopic("lists", Totals)


def add(total: Totals, value: int) -> Totals:
    return Totals(total.count + 1, (*total.values, value))


def name_of(value: int) -> str:
    return f"n{value % 3}"


def values_of(sent: Sequence[Sent]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for record in sent:
        found.setdefault(record.key, []).append(record.value)
    return found


def largest(left: int, right: int) -> int:
    return max(left, right)


BUILT_IN: dict[str, tuple[Callable[[Stream[str, int]], Any], Callable[[list[int]], int]]] = {
    "count": (lambda s: s.count("made"), len),
    "sum": (lambda s: s.sum("made", lambda value: value * 10), lambda values: sum(values) * 10),
    "reduce": (lambda s: s.reduce("made", largest), max),
    "a store of one's own": (
        lambda s: s.count(stores.in_memory("made", int).with_changelog({"segment.ms": "1000"})),
        len,
    ),
}


@pytest.mark.parametrize("operator", BUILT_IN)
@FEW
@given(story=stories(NUMBERS))
def test_a_built_in_aggregate_computes_what_plain_python_computes(operator: str, story: Story) -> None:
    build, oracle = BUILT_IN[operator]
    app = App("sums")
    build(app.stream(IN)).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected = {key: oracle(values) for key, values in values_of(sent).items()}
        assert d.rows(OUT) == expected
        assert d.store("made").contents == expected
        assert equal_to_its_changelog(d, "made")

    play(app, [IN], story, check, slots=2)


@FEW
@given(story=stories(NUMBERS))
def test_an_aggregate_sees_the_values_of_a_key_in_their_order(story: Story) -> None:
    app = App("sums")
    app.stream(IN).aggregate("made", Totals, add).to(LISTS)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected = {key: Totals(len(values), tuple(values)) for key, values in values_of(sent).items()}
        assert d.rows(LISTS) == expected
        assert equal_to_its_changelog(d, "made")

    play(app, [IN], story, check)


@FEW
@given(story=stories(NUMBERS))
def test_every_change_of_an_aggregate_is_sent_once_and_in_order(story: Story) -> None:
    app = App("sums")
    app.stream(IN).count("made").to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        reported: dict[str, list[Any]] = {}
        for record in sorted(d.records(OUT), key=lambda record: record.offset):
            reported.setdefault(record.key, []).append(record.value)
        expected = {key: list(range(1, len(values) + 1)) for key, values in values_of(sent).items()}
        assert reported == expected

    play(app, [IN], story, check)


@FEW
@given(story=stories(NUMBERS))
def test_a_count_behind_a_repartition_counts_every_record_once(story: Story) -> None:
    app = App("sums")
    app.stream(IN).group_by("by-name", name_of, partitions=2).count("made").to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected: dict[str, int] = {}
        for record in sent:
            expected[name_of(record.value)] = expected.get(name_of(record.value), 0) + 1
        assert d.rows(OUT) == expected
        assert equal_to_its_changelog(d, "made")

    play(app, [IN], story, check, slots=2)


@FEW
@given(story=stories(NUMBERS | st.none()))
def test_an_aggregate_over_the_changes_of_a_table_topic_ignores_deletions(story: Story) -> None:
    app = App("sums")
    app.stream(ROWS).count("made").to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        kept = values_of([record for record in sent if record.value is not None])
        assert d.rows(OUT) == {key: len(values) for key, values in kept.items()}

    play(app, [ROWS], story, check)


LAST = stores.key_value("last", int)


def changes(record: Record[str, int], ctx: Context[str, int]) -> None:
    """Forwards by how much a key's value changed; 0 forgets the key."""
    kept = ctx.store(LAST)
    if record.value == 0:
        kept.delete(record.key)
        return
    before = kept.get(record.key) or 0
    kept.put(record.key, record.value)
    ctx.forward(record.with_value(record.value - before))


class Changes:
    def init(self, ctx: Context[str, int]) -> None:
        self.kept = ctx.store(LAST)

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        changes(record, ctx)

    def close(self) -> None:
        del self.kept


DIFFERENCES = Topic("differences", int)


@pytest.mark.parametrize("kind", ["function", "class"])
@FEW
@given(story=stories(NUMBERS))
def test_a_process_step_keeps_its_store_over_crashes_and_moves(kind: str, story: Story) -> None:
    step: Any = changes if kind == "function" else Changes
    app = App("sums")
    app.stream(IN).process("changes", step, stores=[LAST]).to(DIFFERENCES)

    def check(d: Driver, sent: list[Sent]) -> None:
        last: dict[str, int] = {}
        expected: dict[str, list[int]] = {}
        for record in sent:
            if record.value:
                expected.setdefault(record.key, []).append(record.value - last.get(record.key, 0))
            last[record.key] = record.value
        reported: dict[str, list[int | None]] = {}
        for made in sorted(d.records(DIFFERENCES), key=lambda record: record.offset):
            reported.setdefault(made.key, []).append(made.value)
        assert reported == expected
        assert d.store("last").contents == {key: value for key, value in last.items() if value}
        assert equal_to_its_changelog(d, "last")

    play(app, [IN], story, check)


def test_two_steps_may_share_one_store() -> None:
    app = App("sums")
    app.stream(IN).process("one", changes, stores=[LAST]).process("two", changes, stores=[LAST]).to(
        DIFFERENCES
    )
    with Driver(app) as d:
        d.send(IN, "ada", 5, 9)
        d.run()
        assert d.values(DIFFERENCES) == [0, -5]
        assert d.store("last").contents == {"ada": 4}


def test_one_key_with_most_of_the_traffic_keeps_its_order() -> None:
    app = App("sums")
    app.stream(IN).aggregate("made", Totals, add).to(LISTS)
    with Driver(app, partitions=3) as d:
        for number in range(20):
            d.send(IN, "hot", *range(number * 45, (number + 1) * 45))
            d.send(IN, f"cold-{number}", *range(5))
        d.run()
        rows = d.rows(LISTS)
        assert rows["hot"] == Totals(900, tuple(range(900)))
        assert all(rows[f"cold-{number}"].count == 5 for number in range(20))
