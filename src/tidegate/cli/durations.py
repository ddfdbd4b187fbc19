"""Durations in seconds: one option type for all commands, so that all refuse the same values.

`nan` and `inf` are numbers to Python, and no comparison refuses `nan`: a wait for it never ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import typer

DAY = 86_400.0
TEN_YEARS = 10 * 366 * DAY


def seconds(option: str, help_text: str, *, least: float = 0.0, most: float = DAY) -> Any:
    """An option that takes a duration: `Annotated[float, seconds("--wait", "...")]`."""
    return typer.Option(
        option,
        metavar="SECONDS",
        help=help_text,
        parser=between(least, most),
        show_default=False,
    )


def between(least: float, most: float) -> Callable[[Any], float]:
    """Parse a finite number of seconds within bounds; anything else is `bad-usage`."""

    def read(given: Any) -> float:
        try:
            found = float(given)
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            given = str(given)[:40]
            raise typer.BadParameter(f"{given!r} is not a number of seconds from {least:g} to {most:.0f}")
        return found

    return read
