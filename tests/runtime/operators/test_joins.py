"""Joins against plain Python."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.stories import FEW, START, Sent, Story, play, rows_of, stories

from tidegate import App, TableTopic, Topic
from tidegate.testing.driver import Driver

NUMBERS = st.integers(-9, 9)
ROWS = NUMBERS | st.none()
IN = Topic("in", int)
LEFT, RIGHT = TableTopic("left", int), TableTopic("right", int)
OUT = Topic("out", str)
JOINED = TableTopic("joined", str)


def pair(one: int, two: int | None) -> str:
    return f"{one}&{two}"


def sure(one: int, two: int) -> str:
    return f"{one}&{two}"


@FEW
@given(story=stories(NUMBERS, ROWS))
def test_a_stream_meets_the_rows_that_came_before_it_in_time(story: Story) -> None:
    """Within a run the task takes records by time, topic and offset; runs follow each other."""
    app = App("joins")
    events, table = app.stream(IN), app.table(LEFT)
    events.left_join(table, pair).to(OUT)
    inner = Topic("inner", str)
    events.join(table, sure).to(inner)
    seen: dict[str, int] = {}
    lefts: list[tuple[str, str]] = []
    inners: list[tuple[str, str]] = []
    done = 0

    def check(d: Driver, sent: list[Sent]) -> None:
        nonlocal done
        for record in taken(sent[done:]):
            if record.topic == LEFT.name:
                seen.pop(record.key, None)
                if record.value is not None:
                    seen[record.key] = record.value
                continue
            row = seen.get(record.key)
            lefts.append((record.key, pair(record.value, row)))
            if row is not None:
                inners.append((record.key, sure(record.value, row)))
        done = len(sent)
        for topic, expected in ((OUT, lefts), (inner, inners)):
            made = sorted(d.records(topic), key=lambda record: record.offset)
            assert [(record.key, record.value) for record in made] == expected

    play(app, [IN, LEFT], story, check, partitions=1)


def taken(sent: list[Sent]) -> list[Sent]:
    """The order in which one task takes records that all lie there: heads by (time, topic, offset)."""
    queues = [[r for r in sent if r.topic == topic] for topic in sorted({r.topic for r in sent})]
    order = []
    while any(queues):
        queue = min((one for one in queues if one), key=lambda one: (one[0].time, one[0].topic))
        order.append(queue.pop(0))
    return order


@FEW
@given(story=stories(ROWS, ROWS))
def test_joined_tables_hold_the_join_of_their_rows_after_every_run(story: Story) -> None:
    app = App("joins")
    left, right = app.table(LEFT), app.table(RIGHT)
    left.join(right, sure).to(JOINED)
    outer = TableTopic("outer", str)
    left.left_join(right, pair).to(outer)

    def check(d: Driver, sent: list[Sent]) -> None:
        one, two = rows_of(sent, LEFT), rows_of(sent, RIGHT)
        assert d.rows(JOINED) == {key: sure(one[key], two[key]) for key in one if key in two}
        assert d.rows(outer) == {key: pair(value, two.get(key)) for key, value in one.items()}

    play(app, [LEFT, RIGHT], story, check, slots=2)


@FEW
@given(story=stories(ROWS, ROWS))
def test_a_join_of_mapped_and_filtered_tables_reads_them_as_they_are_now(story: Story) -> None:
    app = App("joins")
    left = app.table(LEFT).filter(lambda value: value > 0)
    right = app.table(RIGHT).map(double)
    left.left_join(right, pair).filter(lambda text: "9" not in text).to(JOINED)

    def check(d: Driver, sent: list[Sent]) -> None:
        one, two = rows_of(sent, LEFT), rows_of(sent, RIGHT)
        doubled = {key: value * 2 for key, value in two.items()}
        joined = {key: pair(value, doubled.get(key)) for key, value in one.items() if value > 0}
        assert d.rows(JOINED) == {key: text for key, text in joined.items() if "9" not in text}

    play(app, [LEFT, RIGHT], story, check)


def double(value: int) -> int:
    return value * 2


@FEW
@given(story=stories(NUMBERS))
def test_two_aggregates_of_one_stream_join_to_what_both_are(story: Story) -> None:
    app = App("joins")
    events = app.stream(IN)
    events.count("counts").join(events.sum("sums", double), sure).to(JOINED)

    def check(d: Driver, sent: list[Sent]) -> None:
        expected: dict[str, tuple[int, int]] = {}
        for record in sent:
            count, total = expected.get(record.key, (0, 0))
            expected[record.key] = (count + 1, total + record.value * 2)
        assert d.rows(JOINED) == {key: sure(*both) for key, both in expected.items()}

    play(app, [IN], story, check)


def test_a_stream_joined_with_a_count_of_itself_behind_a_repartition_can_run() -> None:
    app = App("joins")
    events = app.stream(IN)
    events.group_by("again", lambda value: f"k{value}").left_join(events.count("counts"), pair).to(OUT)
    with Driver(app, partitions=2) as d:
        d.send(IN, "k1", 1, 1)
        d.run()
        d.send(IN, "k1", 1)
        d.run()
        assert d.values(OUT)[-1] == "1&3"


def test_a_record_that_is_older_than_a_row_does_not_see_it() -> None:
    app = App("joins")
    app.stream(IN).left_join(app.table(LEFT), pair).to(OUT)
    with Driver(app) as d:
        d.send(LEFT, "ada", 5, timestamp=START - 10)
        d.send(LEFT, "ada", 6, timestamp=START - 5)
        d.send(IN, "ada", 1, timestamp=START - 7)
        d.send(IN, "ada", 2, timestamp=START)
        d.run()
        assert d.values(OUT) == ["1&5", "2&6"]


def test_a_join_keeps_time_and_headers_of_the_stream() -> None:
    app = App("joins")
    app.stream(IN).join(app.table(LEFT), sure).to(OUT)
    with Driver(app) as d:
        d.send(LEFT, "ada", 5, timestamp=START - 10, headers=[("row", b"1")])
        d.send(IN, "ada", 1, timestamp=START - 7, headers=[("event", b"1")])
        d.run()
        (made,) = d.records(OUT)
        own: list[Any] = [pair for pair in made.headers if not pair[0].startswith("tidegate.")]
        assert (made.timestamp, own) == (START - 7, [("event", b"1")])
