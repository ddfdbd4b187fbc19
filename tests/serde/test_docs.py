"""The examples of docs/schemas.md are run as they stand, and every code in it is one that is raised."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "schemas.md").read_text()
SERDES = ROOT / "src" / "tidegate" / "serde"


def examples_of_the_page() -> dict[str, Callable[..., None]]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "schemas.md", "exec"), names)  # noqa: S102 - our own page
    return {name: found for name, found in names.items() if name.startswith("test_")}


@pytest.mark.parametrize("name", sorted(examples_of_the_page()))
def test_an_example_of_the_page_holds(name: str) -> None:
    examples_of_the_page()[name]()


def test_the_page_names_every_error_of_the_registry_and_no_other() -> None:
    source = "".join(
        (SERDES / name).read_text() for name in ("registry.py", "current_registry.py", "framed.py")
    )
    raised = set(re.findall(r'RegistryError\(\s*"([a-z-]+)"', source))
    raised |= {"not-registered", "unknown-schema", "no-magic-byte", "incompatible-schema"}
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", PAGE.partition("## Errors")[2]))
    assert raised <= told
    known = raised | {"missing-extra", "wrong-type", "dead-letter"}
    assert told <= known
