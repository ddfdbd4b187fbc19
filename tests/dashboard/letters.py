"""An app whose records fail in two ways, and which counts what passed."""

from __future__ import annotations

from tidegate import App, Topic

LINES = Topic("lines", str)
NUMBERS = Topic("numbers", int)
LETTERS = "shop-dead-letters"
fixed: set[str] = set()
"""Lines that pass from now on, as if the function had been corrected."""


def parsed(line: str) -> int:
    if line in fixed:
        return 0
    if line == "late":
        raise KeyError(line)
    return int(line)


def shop() -> App:
    app = App("shop")
    app.stream(LINES, on_error="dead-letter").map(parsed).to(NUMBERS)
    return app
