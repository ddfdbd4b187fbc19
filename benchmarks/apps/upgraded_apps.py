"""Two versions of a count: the second one leaves out one key in hundred, so their rows must go."""

from __future__ import annotations

from benchmarks.peers.tidegate.apps import Names
from tidegate import App, TableTopic, Topic


def first(names: Names) -> App:
    """Counts everything."""
    app = App(names.app_id)
    app.stream(Topic(names.source, bytes)).count("counts").to(TableTopic(names.output, int))
    return app


def second(names: Names) -> App:
    """Leaves out values that end with 00."""
    app = App(names.app_id)
    kept = app.stream(Topic(names.source, bytes)).filter(lambda value: not value.endswith(b"00"))
    kept.count("counts").to(TableTopic(names.output, int))
    return app
