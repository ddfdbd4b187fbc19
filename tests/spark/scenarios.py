"""The eight reasons for an upgrade, as the texts of two versions of an app.

Each version groups the numbers of a source by a key, behind an internal topic; writes one row per key to a
table topic; and sends each number once to an event topic, behind the same internal topic. Numbers of the
second source are negative, and their key is `keyC`: no other record has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

HEAD = '''
"""Groups numbers, and sends each of them once."""

from msgspec import Struct

from tidegate import App, Context, Record, Settings, TableTopic, Topic, stores

IN, MORE = Topic("PREFIX-in", int), Topic("PREFIX-more", int)
OUT, EVENTS = TableTopic("PREFIX-out", int), Topic("PREFIX-events", int)
app = App("PREFIX")


def digit(value: int) -> str:
    return f"d{value % 6}" if value >= 0 else "keyC"


'''
ONE_SOURCE = """
numbers = app.stream(IN).group_by("by-digit", digit)
numbers.to(EVENTS)
"""
TWO_SOURCES = """
numbers = app.stream(IN).merge(app.stream(MORE)).group_by("by-digit", digit)
numbers.to(EVENTS)
"""
OTHER_KEY = """
def parity(value: int) -> str:
    return f"p{value % 2}"


numbers = app.stream(IN).group_by("by-digit", parity)
numbers.to(EVENTS)
"""
COUNTED = 'numbers.count("counts").to(OUT)\n'
SUM = """
TOTALS = stores.key_value("totals", int)


class Sum:
    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        total = (ctx.store(TOTALS).get(record.key) or 0) + record.value
        ctx.store(TOTALS).put(record.key, total)
        ctx.forward(record.with_value(total))


numbers.process("sum", Sum, stores=[TOTALS]).to(OUT)
"""
SUM_ONCE = """
TOTALS, SEEN = stores.key_value("totals", int), stores.key_value("seen", int)


class Sum:
    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        seen, value = f"{record.key}/{record.value % 100}", record.value % 100
        if ctx.store(SEEN).get(seen) is not None:
            return
        ctx.store(SEEN).put(seen, 1)
        total = (ctx.store(TOTALS).get(record.key) or 0) + value
        ctx.store(TOTALS).put(record.key, total)
        ctx.forward(record.with_value(total))


numbers.process("sum", Sum, stores=[TOTALS, SEEN]).to(OUT)
"""
SUM_OF_STRUCTS = """
class Row(Struct):
    total: int
    last: str


TOTALS = stores.key_value("totals", Row)


class Sum:
    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        row = ctx.store(TOTALS).get(record.key)
        total = (row.total if row else 0) + record.value
        ctx.store(TOTALS).put(record.key, Row(total, f"<{record.value}>"))
        ctx.forward(record.with_value(total))


numbers.process("sum", Sum, stores=[TOTALS]).to(OUT)
"""
LIMITED = """
class Limits(Settings):
    most: int


limits = Limits(most=MOST)
app.attach(limits)


def allowed(value: int) -> bool:
    return value % 100 < limits.most


numbers.filter(allowed).count("counts").to(OUT)
"""
WEIGHED = """
def weight(value: int) -> int:
    return value


numbers.sum("sums", weight).to(OUT)
"""
WEIGHED_TWICE = WEIGHED.replace("return value\n", "return value * 2 if value % 3 == 0 else value\n")
Rows = Mapping[str, int]


def digit(value: int) -> str:
    return f"d{value % 6}" if value >= 0 else "keyC"


def counted(values: list[int], key: Callable[[int], str] = digit) -> Rows:
    return Counter(key(value) for value in values)


def summed(values: list[int], weight: Callable[[int], int] = lambda value: value) -> Rows:
    found: dict[str, int] = {}
    for value in values:
        found[digit(value)] = found.get(digit(value), 0) + weight(value)
    return found


def summed_once(values: list[int]) -> Rows:
    different = {(digit(value), value % 100) for value in values}
    return {key: sum(value for other, value in different if other == key) for key, _ in different}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Two versions, and the rows of the second one for the numbers of both sources."""

    old: str
    new: str
    rows: Callable[[list[int], list[int]], Rows]

    def texts(self, prefix: str) -> list[str]:
        return [(HEAD + text).replace("PREFIX", prefix) for text in (self.old, self.new)]


def _limited(values: list[int], most: int) -> Rows:
    return counted([value for value in values if value % 100 < most])


SCENARIOS: dict[str, Scenario] = {
    "new source": Scenario(
        ONE_SOURCE + COUNTED, TWO_SOURCES + COUNTED, lambda numbers, more: counted(numbers + more)
    ),
    "removed source": Scenario(
        TWO_SOURCES + COUNTED, ONE_SOURCE + COUNTED, lambda numbers, _: counted(numbers)
    ),
    "source key change": Scenario(
        ONE_SOURCE + COUNTED,
        OTHER_KEY + COUNTED,
        lambda numbers, _: counted(numbers, lambda value: f"p{value % 2}"),
    ),
    "more state": Scenario(ONE_SOURCE + SUM, ONE_SOURCE + SUM_ONCE, lambda numbers, _: summed_once(numbers)),
    "private schema": Scenario(
        ONE_SOURCE + SUM, ONE_SOURCE + SUM_OF_STRUCTS, lambda numbers, _: summed(numbers)
    ),
    "less state": Scenario(ONE_SOURCE + SUM_ONCE, ONE_SOURCE + SUM, lambda numbers, _: summed(numbers)),
    "configuration": Scenario(
        ONE_SOURCE + LIMITED.replace("MOST", "99"),
        ONE_SOURCE + LIMITED.replace("MOST", "40"),
        lambda numbers, _: _limited(numbers, 40),
    ),
    "logic": Scenario(
        ONE_SOURCE + WEIGHED,
        ONE_SOURCE + WEIGHED_TWICE,
        lambda numbers, _: summed(numbers, lambda value: value * 2 if value % 3 == 0 else value),
    ),
}
UNCHANGED = {"private schema"}
"""Scenarios whose rows are the same bytes in both versions."""
