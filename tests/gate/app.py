"""The app of the tests: events with a number, through a gate, to a topic of what came behind it."""

from __future__ import annotations

from typing import Any

from tidegate import App, TableTopic, Topic

EVENTS = Topic("events", int)
PASSED = Topic("passed", int)
COUNTS = TableTopic("counts", int)


def gated(**options: Any) -> App:
    """Events, the gate, and what comes behind it."""
    app = App("gated")
    passed = app.stream(EVENTS, on_error="dead-letter").gate("door", **options)
    passed.to(PASSED)
    passed.count("counted").to(COUNTS)
    return app
