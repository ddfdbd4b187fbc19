"""The types that the tests of Avro write and read, and values of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from enum import Enum, IntEnum
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from tidegate import Avro, SerdeError, Topic

law = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
LONG = st.integers(-(2**63), 2**63 - 1)
MOMENT = st.datetimes(timezones=st.just(UTC))


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    EXTRA = "extra large"


class Level(IntEnum):
    LOW = 1
    HIGH = 9


class Line(Struct, frozen=True):
    sku: str
    count: int = 1


class Order(Struct, frozen=True):
    id: int
    customer: str
    cents: int
    note: str | None = None
    test: bool = False


class Paid(Struct, frozen=True, tag="paid"):
    cents: int
    at: datetime | None = None


class Refused(Struct, frozen=True, tag="re-fused"):
    cents: int
    lines: list[Line] = []


class Tree(Struct, frozen=True):
    value: int
    children: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.5


class Row(TypedDict):
    name: str
    points: list[Point]


class Everything(Struct, frozen=True):
    number: int
    real: float
    text: str
    data: bytes
    color: Color
    size: Size
    level: Level
    at: datetime
    day: date
    hour: time
    local: Annotated[datetime, Meta(tz=False)]
    uid: UUID
    lines: list[Line]
    names: dict[str, Line]
    by_number: dict[int, bool]
    event: Paid | Refused
    more: int | str | None
    point: Point
    maybe: Line | None = None
    few: frozenset[int] = frozenset()
    events: tuple[Paid | Refused, ...] = ()


def made(form: Any, topic: str = "orders", **options: Any) -> Any:
    return Topic(topic, Avro[form](**options)).value_serde


def code_of(call: Any, *arguments: Any) -> str:
    with pytest.raises(SerdeError) as error:
        call(*arguments)
    assert error.value.hint
    return error.value.code


LINES = st.builds(Line, st.text(), LONG)
EVENTS = st.builds(Paid, LONG, st.none() | MOMENT) | st.builds(Refused, LONG, st.lists(LINES, max_size=2))
EVERYTHING = st.builds(
    Everything,
    number=LONG,
    real=st.floats(allow_nan=False),
    text=st.text(),
    data=st.binary(),
    color=st.sampled_from(Color),
    size=st.sampled_from(Size),
    level=st.sampled_from(Level),
    at=MOMENT,
    day=st.dates(),
    hour=st.times(),
    local=st.datetimes(),
    uid=st.uuids(),
    lines=st.lists(LINES, max_size=3),
    names=st.dictionaries(st.text(), LINES, max_size=3),
    by_number=st.dictionaries(LONG, st.booleans(), max_size=3),
    event=EVENTS,
    more=st.none() | LONG | st.text(),
    point=st.builds(Point, st.floats(allow_nan=False), st.floats(allow_nan=False)),
    maybe=st.none() | LINES,
    few=st.frozensets(LONG, max_size=3),
    events=st.lists(EVENTS, max_size=3).map(tuple),
)
