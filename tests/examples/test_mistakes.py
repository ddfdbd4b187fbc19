"""What types cannot show is shown by validation, with the line of the mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate import App, TableTopic, Topic, TopologyError

LINES = Topic("lines", str)
COPY = Topic("copy", str)
COUNTS = TableTopic("counts", int)


def dangling(app: App) -> None:
    app.stream(LINES).filter(bool)  # dangling


def duplicate_name(app: App) -> None:
    app.stream(LINES).count("counts").to(COUNTS)
    app.stream(LINES).reduce("counts", max)  # duplicate-name


def missing_serde(app: App) -> None:
    lines = app.stream(LINES)
    lines.aggregate("totals", lambda: 0, lambda total, line: total + len(line))  # missing-serde


def not_where_its_key_belongs(app: App) -> None:
    renamed = app.stream(LINES).select_key(lambda line: line)
    renamed.count("counts")  # not-where-its-key-belongs


def loop(app: App) -> None:
    app.stream(LINES).map(str.lower).to(LINES)  # loop


def topic_declared_twice(app: App) -> None:
    app.stream(LINES).to(COPY)
    app.stream(LINES).to(Topic("copy", str))  # topic-declared-twice


@pytest.mark.parametrize(
    "mistake",
    [dangling, duplicate_name, missing_serde, not_where_its_key_belongs, loop, topic_declared_twice],
)
def test_a_mistake_that_types_cannot_show_is_reported_with_its_line(mistake: Callable[[App], None]) -> None:
    app = App("wrong")
    code = mistake.__name__.replace("_", "-")
    with pytest.raises(TopologyError) as caught:
        mistake(app)
        app.build()
    assert (caught.value.code, caught.value.location) == (code, f"{shown()}:{line_of(code)}")
    assert caught.value.hint
    assert str(caught.value).startswith(caught.value.location)


def line_of(code: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {code}"))


def shown() -> str:
    path = Path(__file__)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.name
