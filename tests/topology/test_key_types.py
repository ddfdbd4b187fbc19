"""Keys are str unless declared: a function that returns something else is refused where it stands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct

from tidegate import App, SerdeError, TableTopic, Topic, TopologyError
from tidegate.dsl.inferred import result_of
from tidegate.dsl.types_of import UNKNOWN
from tidegate.testing import Driver


class Page(Struct, frozen=True):
    path: str
    depth: int


class View(Struct, frozen=True):
    ms: int
    page: Page
    tags: list[str] = []
    region: str | None = None
    anything: Any = None

    @property
    def seconds(self) -> float:
        return self.ms / 1000

    def day(self) -> int:
        return self.ms // 86_400_000

    def unknown(self):  # type: ignore[no-untyped-def]
        return self.ms


@dataclass(frozen=True)
class Plain:
    ms: int


VIEWS = Topic("views", View)
ROWS = TableTopic("view-rows", View)
COUNTS = TableTopic("counts", int, key=int)
BY_NAME = TableTopic("by-name", int)


def minute(view: View) -> int:
    return view.ms // 60_000


def unannotated(view):  # type: ignore[no-untyped-def]
    return view.ms


KNOWN: list[tuple[Callable[[Any], Any], object]] = [
    (lambda v: v, View),
    (lambda v: v.ms, int),
    (lambda v: v.page.depth, int),
    (lambda v: v.page.path, str),
    (lambda v: v.region, str | None),
    (lambda v: v.tags[0], str),
    (lambda v: v.seconds, float),
    (lambda v: v.day(), int),
    (lambda v: minute(v) + 1, int),
    (lambda v: v.ms // 1000, int),
    (lambda v: v.ms / 1000, float),
    (lambda v: v.page.path + "!", str),
    (lambda v: f"{v.ms}", str),
    (lambda v: f"{v.ms:>10} {v.page.path}", str),
    (lambda v: str(v.ms), str),
    (lambda v: int(v.page.path), int),
    (lambda v: len(v.tags), int),
    (lambda _: "all", str),
    (lambda _: 1, int),
    (unannotated, int),
]


@pytest.mark.parametrize(("function", "result"), KNOWN, ids=range(len(KNOWN)))
def test_what_simple_code_returns_is_known_without_running_it(
    function: Callable[[Any], Any], result: object
) -> None:
    assert result_of(function, View) == result


def generator(view: View):  # type: ignore[no-untyped-def]
    yield view.ms


DOUBTFUL: list[Callable[[Any], Any]] = [
    lambda v: v.anything,
    lambda v: v.missing,
    lambda v: v.unknown(),
    lambda v: v.ms if v.tags else v.page.path,
    lambda v: [v.ms],
    lambda v: v.page.path.lower(),
    lambda v: -v.ms,
    lambda v: NOWHERE(v),  # type: ignore[name-defined]  # noqa: F821, PLW0108
    lambda *views: views,
    generator,
    len,
    str.lower,
]


@pytest.mark.parametrize("function", DOUBTFUL, ids=range(len(DOUBTFUL)))
def test_code_that_leaves_doubt_has_an_unknown_result(function: Callable[[Any], Any]) -> None:
    assert result_of(function, View) is UNKNOWN


@pytest.mark.parametrize("value", [View, Plain])
def test_fields_of_structs_and_dataclasses_are_known(value: type) -> None:
    assert result_of(lambda v: v.ms, value) is int


def by_field(app: Any) -> None:
    app.stream(VIEWS).group_by("g", lambda v: v.ms).count("n").to(COUNTS)  # here


def by_call(app: Any) -> None:
    app.stream(VIEWS).group_by("g", lambda v: minute(v) + 1).count("n").to(COUNTS)  # here


def by_select_key(app: Any) -> None:
    app.stream(VIEWS).select_key(lambda v: v.ms).repartition("g").count("n").to(COUNTS)  # here


def rows_by_field(app: Any) -> None:
    app.table(ROWS).group_by("g", lambda v: v.ms).count("n").to(COUNTS)  # here


@pytest.mark.parametrize("declare", [by_field, by_call, by_select_key, rows_by_field])
def test_a_key_that_is_no_str_is_refused_at_its_line_with_the_type_to_declare(
    declare: Callable[[Any], None],
) -> None:
    with pytest.raises(TopologyError) as raised:
        declare(App("views"))
    lines, first = inspect.getsourcelines(declare)
    (line,) = [first + number for number, text in enumerate(lines) if text.rstrip().endswith("# here")]
    assert raised.value.code == "wrong-key-type"
    assert raised.value.location.endswith(f"test_key_types.py:{line}")
    assert "key=int" in raised.value.hint
    assert "returns int" in raised.value.message


def test_a_declared_or_annotated_key_needs_no_str() -> None:
    app = App("views")
    views = app.stream(VIEWS)
    views.group_by("declared", lambda v: v.ms, key=int).count("n").to(COUNTS)
    views.group_by("annotated", minute, key=int).count("m").to(TableTopic("minutes", int, key=int))
    views.select_key(lambda v: v.ms).to(Topic("by-ms", View, key=int))
    views.group_by("text", lambda v: v.page.path).count("o").to(BY_NAME)
    with Driver(app) as d:
        d.send(VIEWS, "ada", View(7, Page("/", 1)))
        d.run()
        assert d.rows(COUNTS) == {7: 1}
        assert d.rows(BY_NAME) == {"/": 1}


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("kind", ["stream", "table"])
def test_a_key_whose_type_only_a_record_shows_fails_with_line_and_the_type_to_declare(
    kind: str, batches: bool
) -> None:
    app: Any = App("views")
    if kind == "stream":
        app.stream(VIEWS).group_by("g", lambda v: v.anything).count("n").to(BY_NAME)
    else:
        app.table(ROWS).group_by("g", lambda v: v.anything).count("n").to(BY_NAME)
    line = inspect.currentframe().f_lineno - (3 if kind == "stream" else 1)  # type: ignore[union-attr]
    with Driver(app, batches=batches) as d:
        d.send(VIEWS if kind == "stream" else ROWS, "ada", View(7, Page("/", 1), anything=5))
        with pytest.raises(SerdeError) as raised:
            d.run()
    assert raised.value.code == "wrong-type"
    assert f"test_key_types.py:{line}" in raised.value.message
    assert "key=int" in raised.value.hint
