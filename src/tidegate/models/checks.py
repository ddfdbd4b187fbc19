"""What a state may consist of: values that JSON can hold, and that JavaScript reads as they were written."""

from __future__ import annotations

from typing import Any

from tidegate.models.canonical import LARGEST_INTEGER, Json, canonical

DEEPEST = 100
"""Levels of lists and objects in a state."""
_INFINITE = (float("inf"), float("-inf"))


def check_value(value: Json, depth: int = 0) -> None:
    """Raise ValueError for a value that a state cannot have at this depth."""
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is str:
                continue
            if kind is dict:
                below.extend(one.values())
            elif kind is list:
                below.extend(one)
            elif (kind is int and not -LARGEST_INTEGER <= one <= LARGEST_INTEGER) or (
                kind is float and (one != one or one in _INFINITE)  # noqa: PLR0124
            ):
                canonical(value)  # raises with the path
        if below:
            depth += 1
            check_depth(depth)
        level = below


def check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"it has more than {DEEPEST} levels")
