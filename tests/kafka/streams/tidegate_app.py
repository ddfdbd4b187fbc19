"""The oracle's topologies written with tidegate: the same steps, the same bytes in and out."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate import App, JavaLong, TableTopic

LONG = JavaLong()


def tidegate_app(topology: str, app_id: str, inputs: Sequence[str], output: str) -> App:
    """The app; inputs and output are compacted topics, since all of them may hold tombstones."""
    app = App(app_id)
    build = {
        "filter": _filter,
        "count": _count,
        "aggregate": _aggregate,
        "table-table": _table_table,
        "stream-table": _stream_table,
    }[topology]
    build(app, [TableTopic(name, str) for name in inputs], output)
    return app


Text = TableTopic[str, str]


def is_there(value: str | None) -> bool:
    return value is not None


def both(left: str | None, right: str) -> str:
    return f"{left}|{right}"


def _filter(app: App, inputs: Sequence[Text], output: str) -> None:
    kept = app.stream(inputs[0]).filter(lambda value: value is not None and not value.startswith("x"))
    kept.map(_text).to(TableTopic(output, str))


def _count(app: App, inputs: Sequence[Text], output: str) -> None:
    words = app.stream(inputs[0]).filter(is_there).map(_text)
    words.group_by("by-value", lambda word: word).count("counts").to(TableTopic(output, LONG))


def _aggregate(app: App, inputs: Sequence[Text], output: str) -> None:
    def add(total: int, value: str) -> int:
        return (total * 31 + int(value)) % 1_000_003

    numbers = app.stream(inputs[0]).filter(is_there).map(_text)
    numbers.aggregate("sums", int, add).to(TableTopic(output, LONG))


def _table_table(app: App, inputs: Sequence[Text], output: str) -> None:
    left, right = (app.table(topic) for topic in inputs)
    left.join(right, both).to(TableTopic(output, str))


def _stream_table(app: App, inputs: Sequence[Text], output: str) -> None:
    stream = app.stream(inputs[0]).filter(is_there)
    stream.join(app.table(inputs[1]), both).to(TableTopic(output, str))


def _text(value: str | None) -> str:
    return value or ""
