"""docs/reference/operators.md has every operator, with its parameters and an example, and no other."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.docs.reference import blocks, page, parameters, public, sections

from tidegate.app import App
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import GroupedTable, Table
from tidegate.spark.running import Running

CLASSES: dict[str, type[Any]] = {"App": App, "Stream": Stream, "Table": Table, "GroupedTable": GroupedTable}
OPERATORS = {f"{name}.{method}" for name, kind in CLASSES.items() for method in public(kind)}
ELSEWHERE = {"Stream.frame": "frames"}
"""An example with Spark has a page of its own, so that this one runs without."""
WITHOUT_EXAMPLE = {"App.start", "App.run", "App.attach", "App.id"}
PAGE = page("operators")
SECTIONS = sections(PAGE, 3)


def of(operator: str) -> Any:
    kind, method = operator.split(".")
    return getattr(CLASSES[kind], method)


def test_every_operator_is_on_the_page_and_no_other() -> None:
    assert {name for name in SECTIONS if name.split(".")[0] in CLASSES} == OPERATORS
    assert {name for name in SECTIONS if name.split(".")[0] not in CLASSES} == set()


def shown(operator: str) -> set[str]:
    """The parameters that the usage at the top of a section names: `stream.map(function)`."""
    method = operator.split(".")[1]
    paragraphs = SECTIONS[operator].split("\n\n")
    given = re.findall(rf"`\w+\.{method}\(([^`]*)\)`", paragraphs[1])
    parts = (part.split("=")[0].strip(" *\n") for one in given for part in one.split(","))
    return {part for part in parts if part}


@pytest.mark.parametrize("operator", sorted(OPERATORS - {"App.id", "App.run", "App.start"}))
def test_an_operator_shows_all_its_parameters_and_no_other(operator: str) -> None:
    assert shown(operator) == set(parameters(of(operator)))


def test_start_and_run_show_the_options_of_a_run() -> None:
    known = set(parameters(Running.__init__)) | {"name", "config", "spark"}
    assert shown("App.start") <= known
    assert shown("App.run") <= known


@pytest.mark.parametrize("operator", sorted(OPERATORS - WITHOUT_EXAMPLE))
def test_an_operator_has_an_example_that_calls_it_and_shows_what_comes_out(operator: str) -> None:
    where = page(ELSEWHERE[operator]) if operator in ELSEWHERE else SECTIONS[operator]
    example = blocks(where)
    assert f".{operator.split('.')[1]}(" in example
    assert "assert " in example


def test_the_list_at_the_top_links_to_every_operator_of_streams_and_tables() -> None:
    linked = set(re.findall(r"\]\(#([a-z_]+)\)", PAGE.partition("\n## ")[0]))
    assert linked == {name.replace(".", "").lower() for name in OPERATORS if not name.startswith("App.")}
