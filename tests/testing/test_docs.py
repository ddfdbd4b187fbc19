"""docs/testing.md is complete. tests/docs runs its examples."""

from __future__ import annotations

from pathlib import Path

from tidegate.testing import Driver

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_page_names_every_public_method_of_the_driver() -> None:
    public = {name for name in vars(Driver) if not name.startswith("_")} - {"close", "reached"}
    text = PAGE.read_text()
    assert {name for name in public if f"{name}(" not in text and f"`{name}`" not in text} == set()
