"""Stateless functions that return one object again and again: a batch of their results is taken apart, so
that each is used before the next is made, as record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec import Struct

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.start import prepare
from tidegate.testing.driver import Driver

IN = Topic("in", str)
LISTS = Topic("lists", list[str])
ROWS = TableTopic("rows", list[str])
BUFFER: list[str] = []


class Fixed(Struct, frozen=True):
    text: str


FIXED = Fixed("always")


def prefixes(line: str) -> Iterator[list[str]]:
    """A, then A B, then A B C: a mistake that record by record does not show."""
    found: list[str] = []
    for word in line.split():
        found.append(word)
        yield found


def reused(line: str) -> list[str]:
    BUFFER[:] = line.split()
    return BUFFER


def joined(one: str, two: str) -> str:
    return f"{one} {two}"


def fixed(_: str) -> Fixed:
    return FIXED


SHAPES: dict[str, tuple[Callable[[App], Any], Any, list[list[str]]]] = {
    "a generator that grows its list": (
        lambda app: app.stream(IN).flat_map(prefixes).to(LISTS),
        LISTS,
        [["a"], ["a", "b"], ["c"], ["c", "d"], ["c", "d", "e"]],
    ),
    "a map that reuses its list": (
        lambda app: app.stream(IN).map(reused).to(LISTS),
        LISTS,
        [["a", "b"], ["c", "d", "e"]],
    ),
    "a map of a table that reuses its list": (
        lambda app: app.stream(IN).reduce("made", joined).map(reused).to(ROWS),
        ROWS,
        [["a", "b"], ["a", "b", "c", "d", "e"]],
    ),
}


@pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "record by record"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_object_for_several_values_gives_what_single_records_give(shape: str, batches: bool) -> None:
    declare, topic, expected = SHAPES[shape]
    app = App("impure")
    declare(app)
    with Driver(app, batches=batches) as d:
        d.send(IN, "k", "a b", "c d e")
        d.run()
        assert d.values(topic) == expected


def test_a_constant_that_cannot_change_stays_in_its_batch() -> None:
    app = App("impure")
    app.stream(IN).map(fixed).to(Topic("fixed", Fixed))
    clock = ManualClock()
    with TemporaryDirectory() as folder:
        log = SqliteLog(clock=clock)
        run = prepare(app, log, clock, partitions=1)
        Connection(log, partitions=1, clock=clock).send(IN, "k", *"abc")
        [slot] = run.slots(Path(folder), 1)
        while slot.turn() or slot.restoring:
            slot.commit()
        assert [task.batches_taken_apart for task in slot.tasks] == [0]
        slot.close()
        log.close()
