"""`python -m benchmarks.sinks`: how fast a sink fills SQLite and PostgreSQL.

rows       of a model with states of about 1 KB, and of a table topic with five fields; each key once
changes    the same keys again: rows are replaced
hot keys   many records of few keys: folded before they are written
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from tests.postgres import Postgres, programs

from benchmarks.report import Report, run
from tidegate import TableTopic
from tidegate.clock import SystemClock
from tidegate.log.records import columns_to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.models.row import ModelRow, encode_stamps
from tidegate.sinks.database import Database
from tidegate.sinks.layout import Layout, ModelLayout, TableLayout
from tidegate.sinks.sink import Sink
from tidegate.sinks.sources import Source
from tidegate.types import TopicPartition

HOT_KEYS = 100
APPEND = 10_000


class Total(msgspec.Struct, frozen=True):
    """A row of the table topic."""

    orders: int
    cents: int
    average: float
    name: str
    paid: bool


TOTALS = TableTopic("totals", Total)


def model_value(number: int) -> bytes:
    """The row of an id, with a state of about 1 KB."""
    steps = {f"step-{step}": {"seconds": step + 0.5, "by": f"worker-{number % 7}"} for step in range(24)}
    state = msgspec.json.encode({"title": f"workflow {number}", "steps": steps})
    return msgspec.msgpack.encode(
        ModelRow(life=1, sequence=number + 1, hash="0" * 32, gone=False, state=state, stamps=encode_stamps(1))
    )


def table_value(number: int) -> bytes:
    found = TOTALS.encode_value(
        Total(number, 100 * number, number / 7, f"customer {number}", bool(number % 2))
    )
    assert found is not None
    return found


def measure(report: Report, quick: bool) -> None:
    count = 10_000 if quick else 50_000
    with tempfile.TemporaryDirectory() as folder:
        databases = {"SQLite": f"sqlite:///{folder}/rows.db"}
        cluster = None if programs() is None else Postgres()
        try:
            if cluster is not None:
                databases["PostgreSQL"] = cluster.url
            for name, url in databases.items():
                report.progress(name)
                fill(report, name, Path(folder), url, count)
        finally:
            if cluster is not None:
                cluster.close()
    if cluster is None:
        report.missing("PostgreSQL", "rows/s", "a figure", "it is not installed")


def fill(report: Report, name: str, folder: Path, url: str, count: int) -> None:
    layouts: dict[str, tuple[Layout, Any]] = {
        "model rows": (ModelLayout(), model_value),
        "table rows": (TableLayout(TOTALS), table_value),
    }
    for what, (layout, value) in layouts.items():
        log = SqliteLog(folder / f"{name}-{what}.log")
        topic = what.replace(" ", "-")
        log.create(TopicSpec(topic, 1, {"cleanup.policy": "compact"}))
        database = Database(url, folder)
        sink = Sink(log, database, [Source(topic, topic, layout)], SystemClock())
        values = [value(number) for number in range(count)]
        append(log, topic, zip(range(count), values, strict=True))
        report.measured(f"{name}: {what}, new", count / applied(sink), "rows/s")
        append(log, topic, zip(range(count), reversed(values), strict=True))
        report.measured(f"{name}: {what}, replaced", count / applied(sink), "rows/s")
        append(log, topic, ((number % HOT_KEYS, values[number]) for number in range(count)))
        report.measured(f"{name}: {what}, {HOT_KEYS} keys", count / applied(sink), "records/s")
        database.close()
        log.close()


def append(log: SqliteLog, topic: str, rows: Iterable[tuple[int, bytes]]) -> None:
    listed = list(rows)
    for start in range(0, len(listed), APPEND):
        part = listed[start : start + APPEND]
        keys = [f"key-{number}".encode() for number, _ in part]
        batch = columns_to_batch([0] * len(part), keys, [value for _, value in part])
        log.append(TopicPartition(topic, 0), batch)


def applied(sink: Sink) -> float:
    """The seconds in which a sink catches up."""
    began = time.perf_counter()
    sink.follow(threading.Event(), until_caught_up=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    run("sinks", measure)
