"""A record that fails behind an internal topic is reported with its place in the user's own topic."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from tests.runtime.dead_letters import append_raw, dead_letter
from tests.runtime.stories import START

from tidegate import App, SerdeError, Topic, UserCodeError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.topics.failures import failure_of
from tidegate.testing import Driver

IN, OUT = Topic("in", int), Topic("out", int)


def broken(value: int) -> int:
    if value == 13:
        raise ValueError("unlucky")
    return value


def behind_a_gate(policy: Any) -> App:
    app = App("errors")
    app.stream(IN, on_error=policy).gate("door").map(broken).to(OUT)
    return app


def behind_a_repartition(policy: Any) -> App:
    app = App("errors")
    app.stream(IN, on_error=policy).group_by("again", lambda _: "all").map(broken).to(OUT)
    return app


@pytest.mark.parametrize("batches", [True, False])
def test_an_undecodable_record_behind_a_gate_has_the_offset_of_its_topic(batches: bool) -> None:
    with Driver(behind_a_gate("stop"), partitions=1, batches=batches) as d:
        d.send(IN, "ada", 1, 2, 3)
        d.run()
        d.gate("door").pause("ada")
        d.send(IN, "ada", 4)
        d.run()
        append_raw(d, "in", b"bob", b"no int")
        with pytest.raises(SerdeError) as raised:
            d.run()
    assert raised.value.position == ("in", 0, 4)
    assert raised.value.message.startswith("in/0 offset 4 (errors-door-admitted/0 offset 3): ")
    assert failure_of(raised.value, 1, 0, 1).position == ("in", 0, 4)


@pytest.mark.parametrize("made", [behind_a_gate, behind_a_repartition])
def test_a_function_that_fails_behind_an_internal_topic_names_the_users_record(
    made: Callable[[Any], App],
) -> None:
    with Driver(made("stop"), partitions=1) as d:
        d.send(IN, "ada", 1, 2, 13, timestamp=START)
        with pytest.raises(UserCodeError) as raised:
            d.run()
    assert raised.value.position == ("in", 0, 2)
    assert raised.value.message.startswith("in/0 offset 2 (errors-")


@pytest.mark.parametrize("made", [behind_a_gate, behind_a_repartition])
def test_a_dead_letter_from_behind_an_internal_topic_has_both_places(made: Callable[[Any], App]) -> None:
    with Driver(made("dead-letter"), partitions=1) as d:
        d.send(IN, "ada", 1)
        d.run()
        d.send(IN, "ada", 13)
        d.run()
        reported = dead_letter(d)[1]
        assert reported["tidegate.error.position"] == "in/0/1"
        assert reported["tidegate.error.internal-position"].startswith("errors-")
        assert d.values(OUT) == [1]


def test_a_record_of_a_source_topic_keeps_its_place_whatever_headers_it_has() -> None:
    app = App("second")
    app.stream(OUT, on_error="dead-letter").map(lambda value: 1 // (value - 1)).to(Topic("results", int))
    with closing(SqliteLog()) as log:
        with Driver(behind_a_gate("dead-letter"), log=log, partitions=1) as d:
            d.send(IN, "ada", 1)
            d.run()
        with Driver(app, log=log, partitions=1) as second:
            second.run()
            reported = dead_letter(second, "second")[1]
    assert reported["tidegate.error.position"] == "out/0/0"
    assert "tidegate.error.internal-position" not in reported
