"""The pages of docs/reference as data: sections by heading, rows of tables, names in code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_CELLS = re.compile(r"(?<!\\)\|")


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def without_blocks(text: str) -> str:
    """The text without its fenced blocks: a comment in Python looks like a heading."""
    return _FENCED.sub("", text)


def blocks(text: str) -> str:
    """The fenced blocks alone."""
    return "\n".join(_FENCED.findall(text))


def sections(text: str, level: int) -> dict[str, str]:
    """The headings of a level with what stands below them, up to the next heading of this or a higher one."""
    found: dict[str, str] = {}
    heading, fenced = "", False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        marks = 0 if fenced else len(line) - len(line.lstrip("#"))
        if 0 < marks <= level:
            heading = line.lstrip("# ") if marks == level else ""
            assert heading not in found, f"the heading {heading!r} comes twice"
        if heading:
            found[heading] = found.get(heading, "") + line + "\n"
    return found


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without their heads."""
    lines = [line for line in without_blocks(text).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in _CELLS.split(line)[1:-1]] for line in lines]
    rules = {number for number, row in enumerate(cells) if all(set(cell) <= set("-:") for cell in row)}
    heads = {number - 1 for number in rules}
    return [row for number, row in enumerate(cells) if number not in rules | heads]


def names(cell: str) -> list[str]:
    """What stands between backticks."""
    return _CODE.findall(cell)


def named_first(text: str) -> set[str]:
    """The names in the first cells of all tables: of `.get(key, default)` the name `get`."""
    found = (name for row in rows(text) for name in names(row[0]))
    return {re.split(r"[(\s=]", name)[0].split(".")[-1] for name in found}


def public(kind: type[Any], apart_from: Iterable[str] = ()) -> set[str]:
    """The public methods and properties that a class defines, and what it inherits from ours."""
    mine = [one for one in kind.__mro__ if one.__module__.startswith("tidegate")]
    found = {name for one in mine for name in vars(one) if not name.startswith("_")}
    return found - set(apart_from)


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]
