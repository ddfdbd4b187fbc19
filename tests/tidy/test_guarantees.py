"""Every promise of docs/guarantees.md names tests, and those tests are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)((?:::\w+)*)`", PAGE)))


def names_in(path: Path) -> set[str]:
    """Functions and classes of a file, those inside of classes as `Class::function`, assigned names too."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 40


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_named_test_is_there(file: str, test: str) -> None:
    path = ROOT / "tests" / file
    assert path.is_file()
    assert not test or test.removeprefix("::") in names_in(path)


def test_each_numbered_promise_names_a_test() -> None:
    rows = re.findall(r"^\| (I\d+) \|.*\|(.*)\|$", PAGE, re.MULTILINE)
    assert [number for number, shown in rows if "::test_" not in shown and "::Test" not in shown] == []
    assert len(rows) >= 14
