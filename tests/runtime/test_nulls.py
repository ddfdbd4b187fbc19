"""No key and no value, step by step, as Kafka Streams has it; docs/kafka-streams.md lists what differs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.fleet import Fleet
from tests.runtime.slot.test_loud_rebuilds import numbers
from tests.waiting import wait_for

from tidegate import App, TableTopic, TidegateError, Topic
from tidegate.dsl.stream import Stream
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing.driver import Driver

EVENTS = Topic("events", str)
CHANGES = TableTopic("changes", str)
ROWS = TableTopic("rows", str)
JOINED = Topic("joined", str)
COUNTS = TableTopic("counts", int)
TEXTS = TableTopic("texts", str)

both_paths = pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "record by record"])


def appended(text: str, value: str) -> str:
    return text + value


def size(value: str) -> int:
    return len(value)


AGGREGATES: dict[str, tuple[Callable[[Stream[str, Any]], Any], TableTopic[str, Any], Any]] = {
    "count": (lambda s: s.count("made"), COUNTS, 2),
    "sum": (lambda s: s.sum("made", size), COUNTS, 2),
    "reduce": (lambda s: s.reduce("made", appended), TEXTS, "ac"),
    "aggregate": (lambda s: s.aggregate("made", str, appended), TEXTS, "ac"),
}


def ignored(d: Driver) -> int:
    return sum(task.null_values.count for task in d._tasks())


@both_paths
@pytest.mark.parametrize("operator", AGGREGATES)
def test_an_aggregate_ignores_a_record_without_value_and_counts_it(operator: str, batches: bool) -> None:
    build, out, expected = AGGREGATES[operator]
    app = App("nulls")
    build(app.stream(CHANGES)).to(out)
    with Driver(app, batches=batches) as d:
        for value in (None, "a", None, "c", None):
            d.send(CHANGES, "ada", value)
        d.send(CHANGES, "bob", None)
        d.run()
        assert d.rows(out) == {"ada": expected}
        assert len(d.records(out)) == 2
        assert ignored(d) == 4


@both_paths
def test_what_a_map_leaves_without_value_is_not_counted_either(batches: bool) -> None:
    app = App("nulls")
    app.stream(EVENTS).map(lambda value: None if value == "b" else value).count("made").to(COUNTS)
    with Driver(app, batches=batches) as d:
        d.send(EVENTS, "ada", "a", "b", "c")
        d.run()
        assert (d.rows(COUNTS), ignored(d)) == ({"ada": 2}, 1)


@both_paths
def test_a_batch_that_fails_behind_an_ignored_record_counts_it_once(batches: bool) -> None:
    def lucky(count: int) -> int:
        if count == 2:
            raise ValueError("unlucky")
        return count

    app = App("nulls")
    app.stream(CHANGES).count("made").map(lucky).to(COUNTS)
    with Driver(app, batches=batches, on_error="skip") as d:
        for value in ("a", None, "b"):
            d.send(CHANGES, "ada", value)
        d.run()
        assert (d.rows(COUNTS), ignored(d)) == ({"ada": 1}, 1)


def pair(left: str | None, right: str | None) -> str:
    return f"{left}&{right}"


def test_a_stream_table_join_ignores_a_record_without_value_and_counts_it() -> None:
    app = App("nulls")
    stream, table = app.stream(CHANGES), app.table(ROWS)
    stream.join(table, pair).to(JOINED)
    stream.left_join(table, pair).to(Topic("left", str))
    with Driver(app) as d:
        d.send(ROWS, "ada", "row")
        d.run()
        d.send(CHANGES, "ada", None)
        d.send(CHANGES, "bob", None)
        d.send(CHANGES, "ada", "a")
        d.run()
        assert d.values(JOINED) == ["a&row"]
        assert ignored(d) == 4, "two records, each at two joins"


def test_a_left_join_passes_a_record_without_key_on_and_an_inner_join_names_it() -> None:
    left = App("nulls")
    left.stream(EVENTS).left_join(left.table(ROWS), pair).to(JOINED)
    with Driver(left) as d:
        d.send(EVENTS, None, "a")
        d.run()
        made: Any = [(record.key, record.value) for record in d.records(JOINED)]
        assert made == [(None, "a&None")]
    inner = App("nulls")
    inner.stream(EVENTS).join(inner.table(ROWS), pair).to(JOINED)
    with Driver(inner) as d:
        d.send(EVENTS, None, "a")
        with pytest.raises(TidegateError) as caught:
            d.run()
        assert caught.value.code == "null-key"


def group(value: str) -> str | None:
    return value if value != "nobody" else None


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_row_whose_group_is_none_is_in_no_group_and_leaves_the_one_it_was_in(policy: Any) -> None:
    app = App("nulls")
    app.table(ROWS).group_by("by-value", group).count("made").to(COUNTS)
    with Driver(app, on_error=policy) as d:
        for key, value, expected in (
            ("a", "x", {"x": 1}),
            ("b", "x", {"x": 2}),
            ("a", "nobody", {"x": 1}),
            ("c", "nobody", {"x": 1}),
            ("a", "y", {"x": 1, "y": 1}),
            ("b", "nobody", {"y": 1}),
            ("c", None, {"y": 1}),
            ("b", None, {"y": 1}),
        ):
            d.send(ROWS, key, value)
            d.run()
            assert d.rows(COUNTS) == expected, (key, value)
        assert d.store("rows").contents == {"a": "y"}


def counting_changes() -> App:
    app = App("nulls")
    app.stream(CHANGES).count("made").to(COUNTS)
    return app


@pytest.mark.slow
def test_the_numbers_of_a_slot_count_the_ignored_records(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        fleet = Fleet(log, tmp_path, counting_changes)
        fleet.connection.send(CHANGES, "ada", "a", None, None)
        with fleet.running(slots=1):
            wait_for(lambda: numbers(fleet, "null_values") == 2)
        assert fleet.connection.rows(COUNTS) == {"ada": 1}
