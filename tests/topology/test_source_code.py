"""Which changes of a function's own text are noticed, and which are not."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tidegate.topology.source_code import code_of

Load = Callable[[str], ModuleType]
_number = itertools.count()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a text as a module with a file of its own."""

    def loads(text: str) -> ModuleType:
        path = tmp_path / f"shop{next(_number)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    return loads


def digest(function: Any) -> str:
    code = code_of(function)
    assert code is not None
    return code.digest


FIRST = "def total(value):\n    return value + 1\n"


@pytest.mark.parametrize(
    "same",
    [
        "# new\n\n\ndef total(value):\n    # why\n    return value + 1  # more\n",
        'def total(value):\n    """What it does."""\n    return value + 1\n',
        "def total(value):\n    return (\n        value\n        + 1\n    )\n",
    ],
)
def test_comments_docstrings_and_moved_lines_are_no_change(load: Load, same: str) -> None:
    assert digest(load(FIRST).total) == digest(load(same).total)


@pytest.mark.parametrize(
    "other",
    [
        "def total(value):\n    return value + 2\n",
        "def total(value, more=1):\n    return value + 1\n",
        "def total(value):\n    print(value)\n    return value + 1\n",
    ],
)
def test_another_body_or_signature_is_a_change(load: Load, other: str) -> None:
    assert digest(load(FIRST).total) != digest(load(other).total)


def test_the_location_is_that_of_the_function(load: Load) -> None:
    module = load("import functools\n\n@functools.cache\ndef total(value):\n    return value\n")
    code = code_of(module.total)
    assert code is not None
    assert (code.name, code.location) == ("total", f"{module.__name__}.py:4")


def test_lambdas_on_one_line_are_distinguished(load: Load) -> None:
    first = load("one, two, three = lambda v: v + 1, lambda v: v + 2, lambda v: (lambda w: w + v)\n")
    same = load("\nthree = lambda v: (lambda w: w + v); two = lambda v: v + 2; one = lambda v: v + 1\n")
    for name in ("one", "two", "three"):
        assert digest(getattr(first, name)) == digest(getattr(same, name))
    assert len({digest(getattr(first, name)) for name in ("one", "two", "three")}) == 3
    assert digest(first.three(1)) == digest(same.three(2)), "what it closes over is not looked at"


def test_two_lambdas_of_the_same_text_on_one_line_are_one_code(load: Load) -> None:
    module = load("one, two = lambda v: v.a, lambda v: v.a\n")
    assert digest(module.one) == digest(module.two)


def test_a_function_between_parentheses_of_a_call_is_found(load: Load) -> None:
    text = "kept = []\nkept.append(\n    lambda v: {\n        'a': v,\n    }['a']\n)\n"
    assert digest(load(text).kept[0]) == digest(load(text.replace("\n        ", "")).kept[0])


def test_classes_methods_partials_and_instances(load: Load) -> None:
    text = (
        "class Step:\n    '''It steps.'''\n    def __call__(self, value):\n        return value + 1\n"
        "    def other(self, value):\n        '''Also.'''\n        return value\n"
    )
    first, same = load(text), load(text.replace("'''It steps.'''", "pass").replace("'''Also.'''\n", "#\n"))
    changed = load(text.replace("value + 1", "value + 2"))
    assert digest(first.Step) == digest(first.Step())
    assert digest(first.Step) != digest(changed.Step)
    assert digest(first.Step().other) == digest(same.Step().other) == digest(changed.Step().other)
    assert digest(functools.partial(first.Step().other, 1)) == digest(first.Step().other)


def test_builtins_are_known_by_name() -> None:
    builtins: list[Any] = [str.upper, str.lower, len, int, str, [].append]
    assert digest(str.upper) == digest(str.upper)
    assert len({digest(one) for one in builtins}) == 6


def test_what_has_no_text_is_not_known() -> None:
    found: dict[str, Any] = {}
    exec("def total(value): return value", found)  # noqa: S102 - a function without a file
    assert code_of(found["total"]) is None


def test_of_a_file_that_changed_since_its_import_no_function_text_is_known(
    load: Load, tmp_path: Path
) -> None:
    module = load(FIRST)
    (tmp_path / f"{module.__name__}.py").write_text("x = 1\n")
    linecache.clearcache()
    assert code_of(module.total) is None


def test_functions_of_tidegate_itself_are_nobodys_change() -> None:
    assert code_of(code_of) is None
