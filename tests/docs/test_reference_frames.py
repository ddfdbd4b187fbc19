"""docs/reference/frames.md has every function that reads or writes DataFrames, with its parameters."""

from __future__ import annotations

import re

import pytest
from tests.docs.reference import blocks, page, parameters, sections

import tidegate

CHAPTERS = sections(page("frames"), 2)
FUNCTIONS = sorted(name for name in tidegate.__all__ if name.startswith(("read_", "write_")))


def test_every_function_has_a_chapter() -> None:
    assert {name for name in CHAPTERS if "_" in name} == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_names_all_its_parameters_and_has_an_example(name: str) -> None:
    [usage] = re.findall(rf"`tidegate\.{name}\((.*?)\)`", CHAPTERS[name], re.DOTALL)
    shown = [part.split("=")[0].strip() for part in usage.split(",") if part.strip() != "*"]
    assert shown == parameters(getattr(tidegate, name))
    assert f"tidegate.{name}(" in blocks(CHAPTERS[name])
