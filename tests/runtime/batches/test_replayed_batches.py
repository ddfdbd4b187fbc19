"""In a replay, whole batches bring to staging what single records bring, to the byte.

A replay writes the last row of each key and commit. Over whole batches only that one is computed where it
can be known: the counts between are never made.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate import App, Json, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.log import names
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.batches.groups import Counted
from tidegate.runtime.driver.prepare import prepare
from tidegate.state.manager import Limits
from tidegate.types import TopicPartition

START = 1_600_000_000_000
SENT = Topic("numbers", int, key=bytes)
"""Keys as bytes: two of them may be one key."""
KEYS = [b'"a"', b' "a"', b'"b"', b'"' + 600 * b"c" + b'"']
ZEROS = [b"0.0", b"-0.0", b"0.0 ", b"1.5"]
NUMBERS = Topic("numbers", int, key=Json[str]())
FLOATS = Topic("numbers", int, key=Json[float]())
TOTALS = TableTopic("totals", int, key=Json[str]())
TOTALS_AS_JSON = TableTopic("totals", Json[int](), key=Json[str]())
TOTALS_BY_BYTES = TableTopic("totals", int, key=bytes)
TOTALS_BY_FLOATS = TableTopic("totals", int, key=float)
"""It writes -0.0 as 0.0, which JSON does not."""
FEW_BYTES = TableTopic("totals", int, key=bytes, config={"max.message.bytes": "2500"})
"""Too few to be sure without a closer look that a row with a long key fits."""


def even(number: int) -> bool:
    return number % 2 == 0


Declare = Callable[[App], Any]
APPS: dict[str, Declare] = {
    "count": lambda app: app.stream(SENT).count("counts").to(TOTALS_BY_BYTES),
    "count of some": lambda app: app.stream(SENT).filter(even).count("counts").to(TOTALS_BY_BYTES),
    "keys with equal bytes": lambda app: app.stream(NUMBERS).count("counts").to(TOTALS),
    "keys that only the sink merges": lambda app: app.stream(FLOATS).count("counts").to(TOTALS_BY_FLOATS),
    "another format": lambda app: app.stream(NUMBERS).count("counts").to(TOTALS_AS_JSON),
    "long keys": lambda app: app.stream(SENT).count("counts").to(FEW_BYTES),
    "mapped counts": lambda app: app.stream(SENT).count("counts").map(lambda n: -n).to(TOTALS_BY_BYTES),
    "filtered counts": lambda app: app.stream(SENT).count("counts").filter(even).to(TOTALS_BY_BYTES),
    "sum": lambda app: app.stream(SENT).sum("counts", int).to(TOTALS_BY_BYTES),
}
Sent = list[tuple[int, int, int]]
"""The index of a key, a number, and a time."""
records = st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 30), st.integers(0, 3)), max_size=40)


def staged(name: str, sent: Sent, *, batches: bool) -> Any:
    """What a replay, with commits between, brings to staging and to the changelog."""
    keys = ZEROS if "only the sink" in name else KEYS
    app, clock, folder = App("app"), ManualClock(START), Path(tempfile.mkdtemp(prefix="tidegate-replayed-"))
    APPS[name](app)
    try:
        with closing(SqliteLog(clock=clock)) as log:
            run = prepare(app.build(), log, clock, partitions=1, on_error="skip", batches=batches)
            staging = log.create(
                TopicSpec(names.staging("app", "totals", 1), 1, {"cleanup.policy": "compact"})
            )
            context = replace(run.context, mode="replay", staging={"totals": staging}, small_batch=0)
            [slot] = replace(run, context=context).slots(folder, 1, Limits(sync=False))
            connection = Connection(log, partitions=1, clock=clock)
            for start in range(0, len(sent), 15):
                for key, number, at in sent[start : start + 15]:
                    connection.send(SENT, keys[key], number, timestamp=START + at)
                while slot.step() or slot.restoring:
                    slot.commit()
            assert not any(task.batches_taken_apart for task in slot.tasks)
            slot.close()
            return [everything(log, topic) for topic in (staging.name, "app-counts-changelog")]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def everything(log: SqliteLog, topic: str) -> list[Any]:
    partition = TopicPartition(topic, 0)
    batches = read_between(log, partition, 0, log.ends([partition])[partition])
    return [row for batch in batches for row in rows_of(batch)]


@pytest.mark.parametrize("name", APPS)
@settings(max_examples=25, deadline=None)
@given(sent=records)
@example(sent=[(1, 0, 0), (0, 0, 0), (1, 0, 0)])  # the first key has the last record
def test_both_paths_bring_the_same_bytes_to_staging(name: str, sent: Sent) -> None:
    assert staged(name, sent, batches=True) == staged(name, sent, batches=False)


@pytest.mark.parametrize(
    ("name", "made"),
    [("count", False), ("count of some", False), ("long keys", True), ("another format", True)],
)
def test_counts_that_are_not_written_are_not_made(
    name: str, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    new: Any = Counted.new

    def noted(counted: Counted) -> Any:
        asked.append(counted)
        return new.func(counted)

    monkeypatch.setattr(Counted, "new", property(noted))
    sent = [(key, number, 0) for number in range(10) for key in range(4)]
    rows, _ = staged(name, sent, batches=True)
    assert len(rows) >= 3
    assert bool(asked) == made
