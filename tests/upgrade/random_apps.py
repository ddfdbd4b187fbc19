"""Small apps as data: pipelines from sources to a table and to events, and a model. An edit changes the data.

sources, merged -> steps -> join with a table -> gate -> steps -> key -> events
                                                                      -> aggregate -> rows -> table
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from tidegate import App, Settings, Stream, Table, TableTopic, Topic

SOURCES = ("in", "more", "third")
RATES = "rates"
"""The table that streams are joined with."""
Step = tuple[Literal["drop", "times", "limit"], int]
End = Literal["count", "sum", "largest"]
Rows = tuple[Literal["keep", "label", "regroup"], int]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One way from sources to outputs. `name` begins the names of all that it owns."""

    name: str
    sources: tuple[str, ...] = ("in",)
    before: tuple[Step, ...] = ()
    join: int = 0
    """The factor of the table's row; 0: no join."""
    gate: bool = False
    behind: tuple[Step, ...] = ()
    key: int | None = None
    """None: as in the source; 0: moved through an internal topic; else the value modulo this number."""
    events: bool = False
    end: End | None = "count"
    store: str = "rows"
    rows: Rows | None = None
    sink: Literal["out", "alt"] = "out"

    @property
    def table(self) -> str:
        return f"{self.name}-{self.sink}"

    @property
    def event_topic(self) -> str:
        return f"{self.name}-events"

    @property
    def gate_name(self) -> str:
        return f"{self.name}-door"


@dataclass(frozen=True, slots=True)
class Folded:
    """The model of an app."""

    source: str = "in"
    weight: int = 1
    remove: int = 0
    """A multiple of this number removes the id; 0: none does."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One version of the app."""

    pipelines: tuple[Pipeline, ...]
    model: Folded | None = None
    most: int = 99
    """A setting, for the steps `limit`."""

    def pipeline(self, name: str) -> Pipeline | None:
        return next((one for one in self.pipelines if one.name == name), None)

    def topics(self) -> set[str]:
        """The sources that this version reads."""
        found = {topic for one in self.pipelines for topic in one.sources}
        found |= {RATES for one in self.pipelines if one.join}
        return found | ({self.model.source} if self.model else set())

    def gates(self) -> dict[str, Pipeline]:
        return {one.gate_name: one for one in self.pipelines if one.gate}

    def tables(self) -> dict[str, Pipeline]:
        return {one.table: one for one in self.pipelines if one.end}


class Limits(Settings):
    most: int


INPUTS: dict[str, Topic[str, int]] = {name: Topic(name, int) for name in SOURCES}
RATE_ROWS = TableTopic(RATES, int)
# Functions are cached: the fingerprint of one is computed once.


@cache
def keeps(step: Step, most: int) -> Callable[[int], bool]:
    number = most if step[0] == "limit" else step[1]

    def below(value: int) -> bool:
        return value < number

    def no_multiple(value: int) -> bool:
        return value % number != 0

    return below if step[0] == "limit" else no_multiple


@cache
def times(factor: int) -> Callable[[int], int]:
    def multiplied(value: int) -> int:
        return value * factor

    return multiplied


@cache
def joined(factor: int) -> Callable[[int, int], int]:
    def with_rate(value: int, rate: int) -> int:
        return value + factor * rate

    return with_rate


@cache
def group(count: int) -> Callable[[int], str]:
    def of_value(value: int) -> str:
        return f"g{value % count}"

    return of_value


def larger(largest: int, value: int) -> int:
    return max(largest, value)


@cache
def kept_rows(number: int) -> Callable[[int], bool]:
    def kept(row: int) -> bool:
        return row % number != 0

    return kept


@cache
def labels(number: int) -> Callable[[int], str]:
    def label(row: int) -> str:
        return f"{row // number} times"

    return label


@cache
def reducer(folded: Folded) -> Callable[[dict[str, int], int], dict[str, int] | None]:
    weight, remove = folded.weight, folded.remove

    def reduce(state: dict[str, int], value: int) -> dict[str, int] | None:
        if remove and value % remove == 0:
            return None
        return {**state, "sum": state.get("sum", 0) + weight * value, f"v{value % 3}": value}

    return reduce


def build(spec: Spec) -> App:
    app = App("shop", Limits(most=spec.most))
    for one in spec.pipelines:
        _add(app, one, spec.most)
    if spec.model is not None:
        app.model("m", source=INPUTS[spec.model.source], initial=dict)(reducer(spec.model))
    return app


def _add(app: App, one: Pipeline, most: int) -> None:
    first, *others = [app.stream(INPUTS[name]) for name in one.sources]
    stream = _stepped(first.merge(*others) if others else first, one.before, most)
    if one.join:
        stream = stream.join(app.table(RATE_ROWS, "rate-rows"), joined(one.join))
    if one.gate:
        stream = stream.gate(one.gate_name)
    stream = _stepped(stream, one.behind, most)
    if one.key is not None:
        moved = f"{one.name}-by"
        stream = stream.group_by(moved, group(one.key)) if one.key else stream.repartition(moved)
    if one.events:
        stream.to(Topic(one.event_topic, int))
    if one.end is not None:
        _add_rows(one, _aggregated(stream, one.end, f"{one.name}-{one.store}"))


def _stepped(stream: Stream[str, int], steps: tuple[Step, ...], most: int) -> Stream[str, int]:
    for step in steps:
        stream = stream.map(times(step[1])) if step[0] == "times" else stream.filter(keeps(step, most))
    return stream


def _aggregated(stream: Stream[str, int], end: End, store: str) -> Table[str, int]:
    match end:
        case "count":
            return stream.count(store)
        case "sum":
            return stream.sum(store, int)
        case "largest":
            return stream.aggregate(store, int, larger)


def _add_rows(one: Pipeline, table: Table[str, int]) -> None:
    out: Any = TableTopic(one.table, int)
    match one.rows:
        case None:
            table.to(out)
        case ("keep", number):
            table.filter(kept_rows(number)).to(out)
        case ("label", number):
            table.map(labels(number)).to(TableTopic(one.table, str))
        case (_, number):
            table.group_by(f"{one.name}-regroup", group(number)).count(f"{one.name}-regrouped").to(out)
