"""The examples of docs/testing.md are run as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.testing import Driver
from tidegate.testing.pytest_plugin import DriverFactory

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def examples_of_the_page() -> dict[str, Callable[..., None]]:
    """Every test function that the page defines; all blocks share one namespace."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    return {name: found for name, found in names.items() if name.startswith("test_")}


@pytest.mark.parametrize("name", sorted(examples_of_the_page()))
def test_an_example_of_the_page_holds(name: str, driver: DriverFactory) -> None:
    example = examples_of_the_page()[name]
    if "driver" in example.__annotations__:
        example(driver=driver)
    else:
        example()


def test_the_page_names_every_public_method_of_the_driver() -> None:
    public = {name for name in vars(Driver) if not name.startswith("_")} - {"close", "reached"}
    told = PAGE.read_text()
    assert {name for name in public if f"{name}(" not in told and f"`{name}`" not in told} == set()
