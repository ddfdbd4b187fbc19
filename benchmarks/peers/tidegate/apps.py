"""The count in tidegate, three ways: whole batches, a Python function, a Python processor."""

from __future__ import annotations

from tidegate import App, Context, Record, Settings, TableTopic, Topic, stores

COUNTS = stores.key_value("counts", int)


class Names(Settings):
    """What differs between runs."""

    app_id: str
    source: str
    output: str


def counting(names: Names) -> App:
    """The built-in count."""
    app = App(names.app_id)
    app.stream(Topic(names.source, bytes)).count("counts").to(TableTopic(names.output, int))
    return app


def aggregating(names: Names) -> App:
    """A Python function for each record, on the stores of a built-in step."""

    def add(count: int, _: bytes) -> int:
        return count + 1

    app = App(names.app_id)
    app.stream(Topic(names.source, bytes)).aggregate("counts", int, add).to(TableTopic(names.output, int))
    return app


def processing(names: Names) -> App:
    """A processor: get, put and forward for each record."""
    app = App(names.app_id)
    stream = app.stream(Topic(names.source, bytes)).process("count", count, stores=[COUNTS])
    stream.to(TableTopic(names.output, int))
    return app


def count(record: Record[str, bytes], ctx: Context[str, int]) -> None:
    counts = ctx.store(COUNTS)
    total = (counts.get(record.key) or 0) + 1
    counts.put(record.key, total)
    ctx.forward(record.with_value(total))
