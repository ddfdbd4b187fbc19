"""Names where declarations belong, and functions of other parameters: each refused at the user's line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from tidegate import App, TableTopic, Topic, TopologyError, stores
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import GroupedTable, Table

IN, MORE, OUT = (Topic(name, int) for name in ("in", "more", "out"))
ROWS, TOTALS = TableTopic("rows", int), TableTopic("totals", int)
ANY: Any = "views"


def step(record: Any, ctx: Any) -> None:
    """Does nothing."""


def two(key: str, value: int) -> bool:
    return bool(key and value)


def three(key: str, total: int, value: int) -> int:
    return len(key) + total + value


def total(one: int, other: int) -> int:
    return one + other


WRONG: list[tuple[str, str, Callable[[Any], object]]] = [
    ("not-a-topic", 'VIEWS = Topic("views", Order)', lambda app: app.stream(ANY)),
    ("not-a-topic", 'Topic("orders", Order)', lambda app: app.stream(Topic)),
    ("not-a-topic", "app.stream(ORDERS)", lambda app: app.stream(None)),
    ("not-a-topic", 'VIEWS = TableTopic("views", Order)', lambda app: app.table(ANY)),
    ("not-a-topic", 'TableTopic("in"', lambda app: app.table(IN)),
    ("not-a-topic", ".to(VIEWS)", lambda app: app.stream(IN).to(ANY)),
    ("not-a-topic", "TableTopic", lambda app: app.table(ROWS).to(ANY)),
    ("not-a-topic", "TableTopic", lambda app: app.table(ROWS).to(OUT)),
    ("not-a-table", "app.table", lambda app: app.stream(IN).join(ANY, total)),
    ("not-a-table", "app.table", lambda app: app.stream(IN).left_join(ANY, total)),
    ("not-a-table", "app.table", lambda app: app.stream(IN).join(app.stream(MORE), total)),
    ("not-a-table", "app.table", lambda app: app.stream(IN).join(ROWS, total)),
    ("not-a-table", "app.table", lambda app: app.table(ROWS).join(ANY, total)),
    ("not-a-table", "app.table", lambda app: app.table(ROWS).left_join(app.stream(IN), total)),
    ("not-a-stream", "app.stream", lambda app: app.stream(IN).merge(ANY)),
    ("not-a-stream", "app.stream", lambda app: app.stream(IN).merge(app.table(ROWS))),
    ("not-a-stream", "app.stream", lambda app: app.stream(IN).merge(MORE)),
    ("not-callable", "function", lambda app: app.stream(IN).process("f", ANY)),
    ("not-callable", "function", lambda app: app.stream(IN).branch(ANY)),
    ("not-a-store", "stores=[seen]", lambda app: app.stream(IN).process("f", step, stores=ANY)),
    ("not-a-store", "stores=[seen]", lambda app: app.stream(IN).process("f", step, stores=[ANY])),
    (
        "not-a-store",
        "stores=[seen]",
        lambda app: app.stream(IN).process("f", step, stores=stores.key_value("k", int)),
    ),
    ("illegal-name", "characters", lambda app: app.stream(IN).gate(5)),
    ("illegal-name", "characters", lambda app: app.stream(IN).count(TOTALS)),
    ("illegal-name", "characters", lambda app: app.table(ROWS).group_by("g", str).count(5)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).map(two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).filter(two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).peek(two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).flat_map(two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).branch(two)),
    ("wrong-parameters", "record.key", lambda app: app.stream(IN).map_records(two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).group_by("g", two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).sum("n", two)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).reduce("n", three)),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).aggregate("n", int, three)),
    (
        "wrong-parameters",
        "without parameters",
        lambda app: app.stream(IN).aggregate("n", abs, total, value=int),
    ),
    ("wrong-parameters", "map_records", lambda app: app.stream(IN).join(app.table(ROWS), three)),
    ("wrong-parameters", "value only", lambda app: app.table(ROWS).map(two)),
    ("wrong-parameters", "value only", lambda app: app.table(ROWS).filter(two)),
    ("bad-branch", "rest", lambda app: app.stream(IN).branch(bool, big=bool)),
    ("bad-branch", "rest", lambda app: app.stream(IN).branch(rest=bool)),
]


@pytest.mark.parametrize(
    ("code", "hint", "declare"), WRONG, ids=[f"{i}-{one[0]}" for i, one in enumerate(WRONG)]
)
def test_a_wrong_argument_is_refused_with_its_line_and_what_to_write(
    code: str, hint: str, declare: Callable[[Any], object]
) -> None:
    with pytest.raises(TopologyError) as raised:
        declare(App("wrong"))
    assert raised.value.code == code
    assert hint in raised.value.hint
    assert "test_wrong_arguments.py:" in raised.value.location
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    "function", [int, str, bool, abs, lambda value, more=1: value + more, lambda *values: values]
)
def test_functions_that_can_be_called_with_the_value_are_taken(function: Callable[..., Any]) -> None:
    App("right").stream(IN).map(function).to(OUT)


# --- hints of missing-serde ---------------------------------------------------------------------------


def unknown(app: Any) -> Any:
    return app.stream(IN).map(lambda value: value)


def unknown_rows(app: Any) -> Any:
    return app.table(ROWS).map(lambda value: value)


def grouped(app: Any) -> Any:
    return app.table(ROWS).group_by("g", str)


WITHOUT_TYPE: dict[tuple[type, str], Callable[[Any], object]] = {
    (Stream, "repartition"): lambda app: unknown(app).repartition("x"),
    (Stream, "group_by"): lambda app: unknown(app).group_by("x", str),
    (Stream, "gate"): lambda app: unknown(app).gate("x"),
    (Stream, "frame"): lambda app: app.stream(IN).frame(
        "x", lambda rows: rows, value=inspect.Parameter.empty
    ),
    (Stream, "map_batches"): lambda app: unknown(app).map_batches(lambda batch: batch, int),
    (Stream, "count"): lambda app: app.stream(IN).process("f", step).count("x"),
    (Stream, "sum"): lambda app: app.stream(IN).process("f", step).sum("x", int),
    (Stream, "reduce"): lambda app: unknown(app).reduce("x", lambda one, other: one + other),
    (Stream, "aggregate"): lambda app: app.stream(IN).aggregate(
        "x", lambda: 0, lambda one, other: one + other
    ),
    (Table, "group_by"): lambda app: unknown_rows(app).group_by("x", str),
    (GroupedTable, "aggregate"): lambda app: grouped(app).aggregate(
        "x", lambda: 0, *[lambda one, two: one + two] * 2
    ),
}
NO_TYPE_NEEDED = {
    Stream: "map flat_map filter peek map_records select_key merge branch join left_join process to",
    Table: "map filter join left_join to",
    GroupedTable: "count sum",
}


@pytest.mark.parametrize("kind", [Stream, Table, GroupedTable])
def test_every_method_either_needs_no_type_or_is_tried_without_one(kind: type) -> None:
    methods = {name for name in vars(kind) if not name.startswith("_")}
    tried = {name for owner, name in WITHOUT_TYPE if owner is kind}
    assert methods == tried | set(NO_TYPE_NEEDED[kind].split())


@pytest.mark.parametrize(("kind", "method"), WITHOUT_TYPE, ids=lambda one: getattr(one, "__name__", one))
def test_a_hint_names_only_parameters_that_the_method_has(kind: type, method: str) -> None:
    with pytest.raises(TopologyError) as raised:
        WITHOUT_TYPE[kind, method](App("wrong"))
    assert raised.value.code == "missing-serde"
    named = set(re.findall(r"\b(\w+)=", raised.value.hint))
    assert raised.value.hint
    assert named <= set(inspect.signature(getattr(kind, method)).parameters)
