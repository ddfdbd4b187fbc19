"""`make soak` runs every test that repeats more in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REPEATED: tuple[str, ...] = ("repeated", "SOAK")


def _users(tree: ast.Module) -> set[str]:
    """The names of a file's functions and constants that depend on how often tests repeat."""
    found = set(REPEATED)
    size = 0
    while len(found) > size:
        size = len(found)
        for one in tree.body:
            used = {node.id for node in ast.walk(one) if isinstance(node, ast.Name)}
            if used & found:
                if isinstance(one, ast.Assign):
                    found |= {target.id for target in one.targets if isinstance(target, ast.Name)}
                elif isinstance(one, ast.FunctionDef):
                    found.add(one.name)
    return found


def _unmarked(file: Path) -> list[str]:
    """The tests of a file that repeat more in the soak and would not run in it."""
    tree = ast.parse(file.read_text())
    if any("pytestmark" in ast.unparse(one) and "soak" in ast.unparse(one) for one in tree.body):
        return []
    users = _users(tree)
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    return [
        f"{file.relative_to(TESTS)}::{test.name}"
        for test in tests
        if test.name in users and not any("mark.soak" in ast.unparse(one) for one in test.decorator_list)
    ]


def test_each_test_with_repetitions_is_marked_for_the_soak() -> None:
    """In a `conftest.py` they belong to the fixture `kills`, whose tests are marked."""
    users = [file for file in TESTS.rglob("test_*.py") if "from tests.repetitions import" in file.read_text()]
    assert len(users) > 5
    assert [name for file in users for name in _unmarked(file)] == []


@pytest.fixture
def kills() -> int:
    return 1


@pytest.mark.usefixtures("kills")
def test_a_test_that_takes_its_repetitions_from_the_fixture_is_marked(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("soak") is not None
