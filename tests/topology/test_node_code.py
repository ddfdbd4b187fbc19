"""Which functions of a step have a fingerprint."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate import App, Topic
from tidegate.topology.code import Code
from tidegate.topology.node_entries import node_entries


@functools.wraps(abs)
def wrapped(value: int) -> int:
    return abs(value) + 1


def test_a_function_that_wraps_a_builtin_has_a_fingerprint() -> None:
    """`functools.wraps` copies the module of the builtin."""
    app = App("wrapping")
    app.stream(Topic("numbers", int)).map(wrapped).to(Topic("sums", int))
    topology = app.build()
    [step] = [
        one for one in node_entries(topology, {at: at for at in topology.nodes}, Code()) if one.kind == "map"
    ]
    assert step.code["function"]


def test_a_helper_that_was_reloaded_is_seen_although_the_function_stayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    helper = tmp_path / "reloaded_helper.py"
    helper.write_text("seen = []\ndef more(value):\n    seen.append(value)\n    return value + 1\n")
    (tmp_path / "reloaded_root.py").write_text(
        "import reloaded_helper\ndef root(value):\n    return reloaded_helper.more(value)\n"
    )
    module = importlib.import_module("reloaded_root")
    before = Code().of(module.root).digest
    module.root(1)
    assert Code().of(module.root).digest == before, "what it collected is no change of code"
    helper.write_text("seen = []\ndef more(value):\n    seen.append(value)\n    return value + 22\n")
    importlib.reload(sys.modules["reloaded_helper"])
    assert Code().of(module.root).digest != before
    for name in ("reloaded_root", "reloaded_helper"):
        del sys.modules[name]


def test_a_function_without_a_module_has_a_fingerprint() -> None:
    names: dict[str, Any] = {}
    exec("def made(value):\n    return value\n", names)  # noqa: S102 - as a page of the docs is run
    names["made"].__module__ = None
    assert Code().of(names["made"]).digest == Code().of(names["made"]).digest
