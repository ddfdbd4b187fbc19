"""Stateless functions that return one object again and again: a batch of their results is taken apart, so
that each is used before the next is made, as record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from msgspec import Struct

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.operators.immutable import is_immutable
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


class Box:
    """Has a hash, as any class, and can be changed all the same."""

    text = ""


@dataclass(eq=False)
class Boxed:
    text: str = ""


@dataclass(frozen=True)
class Holder:
    """Frozen, but what it holds is not."""

    words: Any


def reusing(one: Any) -> Callable[[str], Any]:
    def use(line: str) -> Any:
        one.text = line
        return one

    return use


def reusing_what_it_holds(holder: Any) -> Callable[[str], Any]:
    def use(line: str) -> Any:
        (holder.words if isinstance(holder, Holder) else holder[0]).text = line
        return holder

    return use


def unboxed(one: Any) -> list[str]:
    found = one.words if isinstance(one, Holder) else one[0] if isinstance(one, tuple) else one
    return [found.text]


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
    "a map that reuses an object of a class": (
        lambda app: app.stream(IN).map(reusing(Box())).map(unboxed).to(LISTS),
        LISTS,
        [["a b"], ["c d e"]],
    ),
    "a map that reuses a dataclass without eq": (
        lambda app: app.stream(IN).map(reusing(Boxed())).map(unboxed).to(LISTS),
        LISTS,
        [["a b"], ["c d e"]],
    ),
    "a map that reuses what a tuple holds": (
        lambda app: app.stream(IN).map(reusing_what_it_holds((Box(),))).map(unboxed).to(LISTS),
        LISTS,
        [["a b"], ["c d e"]],
    ),
    "a map that reuses what a frozen dataclass holds": (
        lambda app: app.stream(IN).map(reusing_what_it_holds(Holder(Box()))).map(unboxed).to(LISTS),
        LISTS,
        [["a b"], ["c d e"]],
    ),
}


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    one: str
    two: int


class FromFrozen(Holder):
    """Inherits from a frozen dataclass, and can get attributes."""


class LooseTuple(tuple[str, ...]):  # noqa: SLOT001 - this is the point
    """So can this."""


class Loose(Struct):
    text: str


def test_only_what_cannot_change_may_come_twice_in_a_batch() -> None:
    cases: list[tuple[Any, bool]] = [
        (None, True),
        (Decimal("1.5"), True),
        (datetime(2026, 1, 1, tzinfo=UTC), True),
        (UUID(int=7), True),
        (Colour.RED, True),
        (("a", (1, None)), True),
        (Pair("a", 1), True),
        (frozenset({1}), True),
        (FIXED, True),
        (Holder("a"), True),
        (("a", ["b"]), False),
        ([], False),
        ({}, False),
        (Box(), False),
        (Boxed(), False),
        (Holder([]), False),
        (FromFrozen("a"), False),
        (LooseTuple("ab"), False),
        (Loose("a"), False),
        (Box, False),
    ]
    assert [value for value, stays in cases if is_immutable(value) is not stays] == []


@pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "record by record"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_object_for_several_values_is_committed_as_by_single_records(shape: str, batches: bool) -> None:
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
        run = prepare(app.build(), log, clock, partitions=1)
        Connection(log, partitions=1, clock=clock).send(IN, "k", *"abc")
        [slot] = run.slots(Path(folder), 1)
        while slot.step() or slot.restoring:
            slot.commit()
        assert [task.batches_taken_apart for task in slot.tasks] == [0]
        slot.close()
        log.close()
