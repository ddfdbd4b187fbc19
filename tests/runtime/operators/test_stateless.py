"""Steps that keep nothing, against plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.dead_letters import dead_letter
from tests.runtime.stories import FEW, START, Sent, Story, by_key, grouped, play, stories

from tidegate import App, Record, TableTopic, Topic
from tidegate.dsl.stream import Stream
from tidegate.testing.driver import Driver

IN, MORE, OUT, ALSO = (Topic(name, int) for name in ("in", "more", "out", "also"))
TABLE = TableTopic("table", int)
NUMBERS = st.integers(-9, 9)

S = Stream[str, int]
Made = list[tuple[Any, Any, int]]


def twice(value: int) -> int:
    return value * 2


def down(value: int) -> list[int]:
    return list(range(value))


def later(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key + "!", record.value + 1, record.timestamp + 7, (("seen", b"1"),))


def name_of(value: int) -> str:
    return f"n{value}"


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every record twice."""
    return pa.concat_batches([batch, batch])


def nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.equal(batch.column("key"), b"none such"))


def no_records(_: Sent) -> Made:
    return []


OPERATORS: dict[str, tuple[Callable[[S], Any], Callable[[Sent], Made]]] = {
    "map": (lambda s: s.map(twice), lambda r: [(r.key, r.value * 2, r.time)]),
    "map_records": (lambda s: s.map_records(later), lambda r: [(r.key + "!", r.value + 1, r.time + 7)]),
    "flat_map": (lambda s: s.flat_map(down), lambda r: [(r.key, n, r.time) for n in range(r.value)]),
    "filter": (
        lambda s: s.filter(lambda value: value > 0),
        lambda r: [(r.key, r.value, r.time)] if r.value > 0 else [],
    ),
    "select_key": (lambda s: s.select_key(name_of), lambda r: [(f"n{r.value}", r.value, r.time)]),
    "peek": (lambda s: s.peek(name_of), lambda r: [(r.key, r.value, r.time)]),
    "repartition": (lambda s: s.repartition("again"), lambda r: [(r.key, r.value, r.time)]),
    "repartition to another count": (
        lambda s: s.repartition("again", partitions=5),
        lambda r: [(r.key, r.value, r.time)],
    ),
    "group_by": (lambda s: s.group_by("again", name_of), lambda r: [(f"n{r.value}", r.value, r.time)]),
    "map_batches": (lambda s: s.map_batches(doubled, int), lambda r: [(r.key, r.value, r.time)] * 2),
    "map_batches to nothing": (lambda s: s.map_batches(nothing, int), no_records),
    "two steps": (
        lambda s: s.filter(lambda value: value > 0).map(twice),
        lambda r: [(r.key, r.value * 2, r.time)] if r.value > 0 else [],
    ),
}
KEEP_THE_KEY = {"map", "map_records", "flat_map", "filter", "peek", "map_batches", "two steps"}


@pytest.mark.parametrize("operator", OPERATORS)
@FEW
@given(story=stories(NUMBERS))
def test_a_step_computes_what_plain_python_computes(operator: str, story: Story) -> None:
    build, oracle = OPERATORS[operator]
    app = App("steps")
    build(app.stream(IN)).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected = grouped([made for record in sent for made in oracle(record)])
        found = by_key(d, OUT)
        if operator in KEEP_THE_KEY or operator.startswith("repartition"):
            assert found == expected
        else:  # several source partitions meet under one key: their order is open
            assert {key: sorted(made) for key, made in found.items()} == {
                key: sorted(made) for key, made in expected.items()
            }

    play(app, [IN], story, check)


@FEW
@given(story=stories(NUMBERS, NUMBERS))
def test_merge_has_the_records_of_both_and_keeps_the_order_of_each(story: Story) -> None:
    app = App("steps")
    app.stream(IN).map(lambda value: value).merge(app.stream(MORE).map(lambda value: value + 100)).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        for key, made in by_key(d, OUT).items():
            for topic, shift in ((IN, 0), (MORE, 100)):
                mine = [(r.value + shift, r.time) for r in sent if (r.topic, r.key) == (topic.name, key)]
                assert [one for one in made if (one[0] > 50) == bool(shift)] == mine
        assert len(d.records(OUT)) == len(sent)

    play(app, [IN, MORE], story, check)


@FEW
@given(story=stories(NUMBERS))
def test_branch_sends_each_record_to_the_first_that_takes_it(story: Story) -> None:
    app = App("steps")
    low, small, rest = app.stream(IN).branch(lambda value: value < 0, lambda value: value < 5)
    low.to(OUT)
    small.map(twice).to(ALSO)
    rest.map(name_of).map(int_of).to(MORE)

    def check(d: Driver, sent: list[Sent]) -> None:
        assert by_key(d, OUT) == grouped([(r.key, r.value, r.time) for r in sent if r.value < 0])
        assert by_key(d, ALSO) == grouped([(r.key, r.value * 2, r.time) for r in sent if 0 <= r.value < 5])
        assert by_key(d, MORE) == grouped([(r.key, r.value, r.time) for r in sent if r.value >= 5])

    play(app, [IN], story, check)


def int_of(name: str) -> int:
    return int(name[1:])


def test_branches_with_names_are_found_by_them() -> None:
    app = App("operators")
    parts = app.stream(IN).branch(low=lambda value: value < 0, small=lambda value: value < 5)
    assert list(parts) == ["low", "small", "rest"]
    parts["low"].map(lambda _: 0).merge(parts["rest"]).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", -7, 3, 9)
        d.run()
        assert d.values(OUT) == [0, 9]


def test_a_branch_that_nobody_wants_may_be_left() -> None:
    app = App("steps")
    low, _ = app.stream(IN).branch(lambda value: value < 0)
    low.to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", -1, 1)
        d.run()
        assert d.values(OUT) == [-1]


@FEW
@given(story=stories(NUMBERS | st.none()))
def test_a_stream_over_a_table_topic_has_changes_and_deletions(story: Story) -> None:
    app = App("steps")
    app.stream(TABLE).map(lambda value: 1000 if value is None else value).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        reported = [(r.key, 1000 if r.value is None else r.value, r.time) for r in sent]
        assert by_key(d, OUT) == grouped(reported)

    play(app, [TABLE], story, check)


@FEW
@given(story=stories(NUMBERS))
def test_a_topic_written_twice_holds_the_records_of_both(story: Story) -> None:
    app = App("steps")
    app.stream(IN).to(OUT)
    app.stream(IN).map(lambda value: value + 100).to(OUT)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected = grouped([(r.key, r.value + shift, r.time) for r in sent for shift in (0, 100)])
        assert by_key(d, OUT) == expected

    play(app, [IN], story, check)


def test_headers_of_a_record_stay_with_it_and_no_internal_header_is_shown() -> None:
    seen: list[Any] = []
    app = App("steps")

    def look(record: Record[str, int]) -> Record[str, int]:
        seen.append(record.headers)
        return record

    app.stream(IN).repartition("again").map_records(look).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1, headers=[("trace", b"1"), ("trace", None)])
        d.run()
        assert seen == [(("trace", b"1"), ("trace", None))]
        assert d.records(OUT)[0].headers[:2] == (("trace", b"1"), ("trace", None))


def test_map_batches_may_set_the_headers() -> None:
    def mark(batch: pa.RecordBatch) -> pa.RecordBatch:
        headers = pa.array([[{"name": "new", "value": b"1"}]] * batch.num_rows, batch.column("headers").type)
        return batch.set_column(3, batch.schema.field(3), headers)

    app = App("steps")
    app.stream(IN).map_batches(mark, int).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1, headers=[("old", b"0")])
        d.run()
        assert d.records(OUT)[0].headers[0] == ("new", b"1")


def test_an_event_without_a_value_is_not_written_to_a_topic_of_events() -> None:
    app = App("steps")
    app.stream(TABLE, on_error="dead-letter").map(lambda value: value).to(OUT)  # type: ignore[arg-type]
    with Driver(app) as d:
        d.send(TABLE, "ada", 1, None)
        d.run()
        assert d.values(OUT) == [1]
        assert dead_letter(d, "steps")[1]["tidegate.error.code"] == "null-value"


def test_a_timestamp_function_sets_the_time_of_foreign_records() -> None:
    from tidegate.log.records import Row, to_batch
    from tidegate.types import TopicPartition

    timed = Topic("timed", int, timestamp=lambda value: START + value)
    seen: list[tuple[int, int]] = []
    app = App("steps")

    def look(record: Record[str, int], ctx: Any) -> None:
        seen.append((record.timestamp, ctx.stream_time))

    app.stream(timed).process("look", look)
    with Driver(app) as d:
        d.send(timed, "ada", 1)
        foreign = [Row(b"ada", timed.encode_value(value), START + 900_000) for value in (20, 5)]
        d.log.append(TopicPartition("timed", 0), to_batch(foreign))
        d.run()
    assert seen == [(START + 1, START + 1), (START + 20, START + 20), (START + 5, START + 20)]
