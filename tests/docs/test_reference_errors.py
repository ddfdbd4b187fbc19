"""docs/reference/errors.md has every error code of the source, once, with its class, and no other."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

from tests.docs.reference import names, page, rows
from tests.tidy.error_codes import Module, modules, source_codes

import tidegate

PAGE = page("errors")
ROWS = [row for row in rows(PAGE) if "<a id=" in row[0]]
REPORTED = {"internal", "no-core-for-stages", "partitions-added", "slot-failed", "slot-lost"}
"""Codes that are in warnings, failures and answers, and in no exception that tidegate raises."""
CLASSES = {
    name: found
    for name in tidegate.__all__
    if isinstance(found := getattr(tidegate, name), type) and issubclass(found, tidegate.TidegateError)
}


@functools.cache
def source() -> list[Module]:
    return modules(Path(tidegate.__file__).parent)


def code(row: list[str]) -> str:
    return names(row[0])[-1]


def test_every_code_is_on_the_page_once_and_no_other() -> None:
    listed = [code(row) for row in ROWS]
    assert len(set(listed)) == len(listed)
    codes, _ = source_codes(source())
    assert {name: place for name, place in codes.items() if name not in listed} == {}
    assert set(listed) - set(codes) == REPORTED


def test_a_code_that_is_only_reported_is_in_the_source() -> None:
    texts = {node.value for one in source() for node in one.nodes if isinstance(node, ast.Constant)}
    assert REPORTED - texts == set()
    assert {code(row) for row in ROWS if not row[1]} == REPORTED


def test_every_code_can_be_linked_to() -> None:
    assert [row[0] for row in ROWS if f'<a id="{code(row)}"></a>' not in row[0]] == []


def test_every_code_has_a_meaning_and_something_to_do() -> None:
    assert [code(row) for row in ROWS if not (row[2].endswith(".") and row[3].endswith("."))] == []


def test_the_class_of_a_code_is_the_one_that_the_source_raises() -> None:
    """As far as it can be read off the source: a class by its own name, with the code as a literal."""
    shown = {code(row): set(names(row[1])) for row in ROWS}
    wrong: list[Any] = []
    for module in source():
        for node in module.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and node.func.id not in shown.get(str(first.value), ()):
                    wrong.append((first.value, node.func.id, f"{module.path.name}:{node.lineno}"))
    assert [one for one in wrong if one[1] != "FencedError"] == []
    assert {name for found in shown.values() for name in found} <= set(CLASSES)


def test_every_class_is_in_the_table_with_its_fields() -> None:
    table = {names(row[0])[0]: row for row in rows(PAGE.partition("\n## ")[0]) if len(row) == 3}
    assert set(table) == set(CLASSES)
