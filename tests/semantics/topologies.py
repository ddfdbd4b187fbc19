"""The topologies of Scenarios.java in tidegate; functions have the same names in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from tidegate import App, TableTopic
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import Table

TEXTS, NUMBERS = TableTopic("out", str), TableTopic("out", int)


def shout(value: str | None) -> str:
    return "nothing" if value is None else value + "!"


def exclaimed(value: str) -> str:
    return value + "!"


def or_nothing(value: str) -> str | None:
    return None if value.startswith("x") else value


def plain(value: str | None) -> bool:
    return value is not None and not value.startswith("x")


def parts(value: str) -> list[str]:
    return value.split("-")


def initial(value: str) -> str:
    return value[:1] or "-"


def first(value: str) -> str | None:
    return None if value.startswith("x") else value[:1]


def without(text: str, part: str) -> str:
    return text.replace(part, "", 1)


def appended(text: str, value: str) -> str:
    return text + value


def prepended(text: str, value: str) -> str:
    return value + text


def appended_or_none(text: str, value: str) -> str | None:
    return None if value.startswith("x") else text + value


def size(value: str) -> int:
    return len(value)


def tenfold(count: int) -> int:
    return count * 10


def even(count: int) -> bool:
    return count % 2 == 0


def pair(left: object, right: object) -> str:
    return f"{left}&{'null' if right is None else right}"


class Inputs:
    """The sources of one scenario."""

    def __init__(self, topics: Mapping[str, Any]) -> None:
        self.app = App("scenarios")
        self._topics = topics

    def stream(self, name: str = "in") -> Stream[str, Any]:
        return self.app.stream(self._topics[name])

    def table(self, name: str = "in") -> Table[str, Any]:
        return self.app.table(self._topics[name], f"{name}-rows")


def counted(table: Table[str, Any], group: Callable[[str], Any] = initial) -> Table[str, int]:
    return table.group_by("by-group", group).count("counts")


def _by_first(stream: Stream[str, Any]) -> Stream[str, Any]:
    function: Any = first
    return stream.group_by("by-group", function, key=str)


def self_join(table: Table[str, str]) -> Table[str, str]:
    return table.join(table, pair)


def self_left_join(table: Table[str, str]) -> Table[str, str]:
    return table.left_join(table.filter(plain), pair)


def self_join_counted(table: Table[str, str]) -> Table[str, int]:
    return counted(table.join(table.map(exclaimed), pair))


Add = Callable[[str, str], str]

TOPOLOGIES: dict[str, Callable[[Inputs], Any]] = {
    "stream map": lambda i: i.stream().map(shout),
    "stream filter": lambda i: i.stream().filter(plain),
    "stream flat_map": lambda i: i.stream().flat_map(parts),
    "stream select_key": lambda i: i.stream().select_key(initial),
    "stream merge": lambda i: i.stream().merge(i.stream("more")),
    "stream to nothing": lambda i: i.stream().map(or_nothing),
    "stream repartition": lambda i: i.stream().repartition("again"),
    "count": lambda i: i.stream().count("made"),
    "sum": lambda i: i.stream().sum("made", size),
    "reduce": lambda i: i.stream().reduce("made", appended),
    "reduce to nothing": lambda i: i.stream().reduce("made", appended_or_none),
    "aggregate": lambda i: i.stream().aggregate("made", str, appended),
    "aggregate to nothing": lambda i: i.stream().aggregate(
        "made", str, cast("Add", appended_or_none), value=str
    ),
    "group_by count": lambda i: _by_first(i.stream()).count("made"),
    "count, map": lambda i: i.stream().count("made").map(tenfold),
    "count, filter": lambda i: i.stream().count("made").filter(even),
    "aggregate, group_by count": lambda i: counted(i.stream().aggregate("made", str, prepended)),
    "table": lambda i: i.table(),
    "table map": lambda i: i.table().map(exclaimed),
    "table map to nothing": lambda i: i.table().map(or_nothing),
    "table filter": lambda i: i.table().filter(plain),
    "table join": lambda i: i.table().join(i.table("other"), pair),
    "table left_join": lambda i: i.table().left_join(i.table("other"), pair),
    "table join of views": lambda i: i.table().filter(plain).left_join(i.table("other").map(exclaimed), pair),
    "table self join": lambda i: self_join(i.table()),
    "table self left_join of a view": lambda i: self_left_join(i.table()),
    "table self join, group_by count": lambda i: self_join_counted(i.table()),
    "table join, group_by count": lambda i: counted(i.table().join(i.table("other"), pair)),
    "table group_by count": lambda i: counted(i.table()),
    "table group_by count, if any": lambda i: counted(i.table(), first),
    "table filter, group_by count": lambda i: counted(i.table().filter(plain)),
    "table group_by aggregate": lambda i: (
        i.table().group_by("by-group", initial).aggregate("made", str, appended, without)
    ),
    "table group_by sum": lambda i: i.table().group_by("by-group", initial).sum("made", size),
    "stream-table join": lambda i: i.stream().join(i.table("other"), pair),
    "stream-table left_join": lambda i: i.stream().left_join(i.table("other"), pair),
    "stream-table join of a view": lambda i: i.stream().join(
        i.table("other").filter(plain).map(exclaimed), pair
    ),
    "stream joined with a tally": lambda i: i.stream().left_join(i.stream("other").count("made"), pair),
}
