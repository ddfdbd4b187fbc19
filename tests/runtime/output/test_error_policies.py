"""What happens to a record that fails: stop, skip or dead-letter, and nothing of it stays."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.runtime.dead_letters import append_raw, dead_letter
from tests.runtime.stories import START

from tidegate import (
    App,
    Context,
    Record,
    StateError,
    TableTopic,
    Topic,
    UserCodeError,
    stores,
)
from tidegate.dsl.stream import Stream
from tidegate.runtime.output.origin import origin_of
from tidegate.testing.driver import Driver
from tidegate.topology.node import OnError

IN, OUT, MORE = (Topic(name, int) for name in ("in", "out", "more"))
ROWS = TableTopic("rows", int)
SEEN = stores.key_value("seen", int)
POLICIES: list[OnError] = ["skip", "dead-letter"]


def refuse_three(value: int) -> int:
    if value == 3:
        raise ValueError("three")
    return value


def keep(record: Record[str, int], ctx: Context[str, int]) -> None:
    ctx.store(SEEN).put(f"{record.key}{record.value}", record.value)
    ctx.schedule(1, lambda now: ctx.store(SEEN).put(f"timer of {record.value}", now))
    ctx.forward(record)


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_record_that_fails_in_its_third_node_leaves_nothing_of_the_first_two(
    policy: OnError, batches: bool
) -> None:
    app = App("errors")
    kept = app.stream(IN, on_error=policy).process("keep", keep, stores=[SEEN])
    kept.to(MORE)
    kept.map(refuse_three).to(OUT)
    with Driver(app, batches=batches, origin_headers=True) as d:
        d.send(IN, "ada", 1)
        d.send(IN, "ada", 3, timestamp=START + 1)
        d.send(IN, "ada", 4, timestamp=START + 2)
        d.run()
        d.send(IN, "ada", 5, timestamp=START + 10)
        d.run()
        assert set(d.store("seen").contents) == {"ada1", "ada4", "ada5", "timer of 1", "timer of 4"}
        assert d.store("seen").contents == d.store("seen").changelog
        assert d.values(MORE) == d.values(OUT) == [1, 4, 5]
        assert len(d.dead_letters()) == (policy == "dead-letter")
        origins = [origin_of(record.headers) for topic in (MORE, OUT) for record in d.records(topic)]
        assert sorted(origin.sequence for origin in origins if origin) == [1, 2, 3, 4, 5, 6]


def test_a_failed_record_takes_back_what_it_changed_of_earlier_records_of_the_same_commit() -> None:
    app = App("errors")
    app.stream(IN, on_error="skip").sum("sums", lambda value: value).map(refuse_three).to(ROWS)
    with Driver(app) as d:
        d.send(IN, "ada", 2, 1, 5)
        d.run()
        assert d.rows(ROWS) == {"ada": 7}
        assert d.store("sums").contents == d.store("sums").changelog == {"ada": 7}


@pytest.mark.parametrize("batches", [True, False])
def test_stop_names_the_line_and_the_position_and_commits_nothing_of_the_record(batches: bool) -> None:
    app = App("errors")
    app.stream(IN).map(refuse_three).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", 1, 2, 3)
        line = refuse_three.__code__.co_firstlineno + 2
        for _ in range(2):
            with pytest.raises(
                UserCodeError, match=f"in/0 offset 2: ValueError: three at .*py:{line}"
            ) as caught:
                d.run()
            assert (caught.value.position, caught.value.generation) == (("in", 0, 2), 1)
            assert isinstance(caught.value.__cause__, ValueError)
        assert 3 not in d.values(OUT)
        assert d.values(OUT) in ([], [1, 2])


def test_the_line_is_the_users_own_even_if_a_library_raised() -> None:
    texts = Topic("texts", str)

    def parse(text: str) -> int:
        return int(json.loads(text))

    app = App("errors")
    app.stream(texts).map(parse).to(OUT)
    with Driver(app) as d:
        d.send(texts, "ada", "{")
        with pytest.raises(
            UserCodeError, match=f"test_error_policies.py:{parse.__code__.co_firstlineno + 1}"
        ):
            d.run()


@pytest.mark.parametrize(
    ("source", "own"), [("stop", "skip"), ("skip", "dead-letter"), ("dead-letter", "skip")]
)
def test_the_policy_of_a_processor_wins_over_that_of_the_source(source: OnError, own: OnError) -> None:
    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.forward(record.with_value(refuse_three(record.value)))

    app = App("errors")
    app.stream(IN, on_error=source).process("step", step, on_error=own).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1, 3, 4)
        d.run()
        assert d.values(OUT) == [1, 4]
        assert len(d.dead_letters()) == (own == "dead-letter")


BEHIND: dict[str, Callable[[Stream[str, int]], Stream[str, int]]] = {
    "a group_by": lambda stream: stream.group_by("again", name_of),
    "a repartition": lambda stream: stream.repartition("again"),
    "a gate": lambda stream: stream.gate("again"),
    "several": lambda stream: stream.gate("first").group_by("again", name_of).map(same).repartition("third"),
}


def name_of(value: int) -> str:
    return f"n{value}"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("behind", BEHIND)
def test_the_policy_of_the_source_holds_behind_internal_topics_too(policy: OnError, behind: str) -> None:
    app = App("errors")
    stream = app.stream(IN, on_error=policy).map(same)
    BEHIND[behind](stream).map(refuse_three).to(OUT)
    with Driver(app, partitions=2) as d:
        d.send(IN, "ada", 1, 3, 4)
        d.run()
        assert sorted(d.values(OUT)) == [1, 4]
        assert len(d.dead_letters()) == (policy == "dead-letter")


def same(value: int) -> int:
    return value


def test_the_source_s_policy_of_stop_holds_behind_internal_topics_too() -> None:
    app = App("errors")
    app.stream(IN).group_by("again", name_of).map(refuse_three).to(OUT)
    with Driver(app) as d, pytest.raises(UserCodeError, match="three"):
        d.send(IN, "ada", 3)
        d.run()


def test_the_policy_of_the_innermost_processor_counts() -> None:
    def outer(record: Record[str, int], ctx: Context[str, int]) -> None:
        if record.value == 9:
            raise ValueError("nine")
        ctx.forward(record)

    def inner(record: Record[str, int], ctx: Context[str, int]) -> None:
        refuse_three(record.value)
        ctx.forward(record)

    app = App("errors")
    steps = app.stream(IN).process("outer", outer, on_error="skip")
    steps.process("inner", inner, on_error="dead-letter").to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 9, 3, 1)
        d.run()
        assert d.values(OUT) == [1]
        assert dead_letter(d)[1]["tidegate.error.position"] == "in/0/1"


def test_the_policy_of_the_run_holds_where_no_other_is_given() -> None:
    app = App("errors")
    app.stream(IN).map(refuse_three).to(OUT)
    with Driver(app, on_error="skip") as d:
        d.send(IN, "ada", 1, 3)
        d.run()
        assert d.values(OUT) == [1]


def test_a_dead_letter_keeps_bytes_headers_position_and_error() -> None:
    app = App("errors")
    app.stream(IN, on_error="dead-letter").map(refuse_three).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1)
        append_raw(d, "in", b"ada", IN.encode_value(3), START - 7, trace=b"\x00\xff", empty=b"")
        d.run()
        (record,) = d.dead_letters()
        assert (record.key, record.value, record.timestamp) == (b"ada", IN.encode_value(3), START - 7)
        assert record.headers[:2] == (("trace", b"\x00\xff"), ("empty", b""))
        reported = dict(record.headers[2:])
        assert reported["tidegate.error.code"] == b"user-code"
        assert b"three" in (reported["tidegate.error.message"] or b"")
        assert reported["tidegate.error.position"] == b"in/0/1"
        place = f"test_error_policies.py:{refuse_three.__code__.co_firstlineno + 2}"
        assert reported["tidegate.error.place"] == place.encode()


def test_dead_letters_of_a_crashed_run_are_there_once() -> None:
    from tidegate.testing.driver import Commit

    app = App("errors")
    app.stream(IN, on_error="dead-letter").map(refuse_three).to(OUT)
    with Driver(app, partitions=2) as d:
        d.send(IN, "ada", 3, 1)
        d.crash(at=Commit.LOG)
        d.crash(at=Commit.LOG_COMMITTED)
        d.run()
        assert (len(d.dead_letters()), d.values(OUT)) == (1, [1])


def test_a_broken_store_is_no_fault_of_the_record_and_always_stops() -> None:
    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        raise StateError("corrupt-state", "the row is damaged", "restore it")

    app = App("errors")
    app.stream(IN, on_error="skip").process("step", step, on_error="dead-letter").to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1)
        with pytest.raises(StateError, match="corrupt-state"):
            d.run()
        assert d.dead_letters() == []
