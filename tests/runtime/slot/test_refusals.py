"""A record that only the log refuses, in the commit: it alone meets its policy, and all others pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.fleet import Fleet
from tests.waiting import wait_for

from tidegate import App, Context, Record, Topic
from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.protocol import Log, Writer
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.output.on_error import CODE, POSITION, RecordPosition
from tidegate.runtime.slot.refused_records import Refusals
from tidegate.topology.node import OnError
from tidegate.types import Offset, TopicPartition

IN, OUT, OTHER = (Topic(name, str) for name in ("in", "out", "other"))
BAD = [17, 1_500, 1_501]
COUNT = 3_000
SOURCE = TopicPartition("in", 0)


class RefusingWriter:
    """Takes everything, and fails in flush or commit: as a broker does, which looks at records later."""

    def __init__(self, writer: Writer, topic: str, values: set[bytes]) -> None:
        self._writer = writer
        self._topic = topic
        self._values = values
        self._refused = False

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._writer.append(partition, batch)
        if partition.topic == self._topic and self._values.intersection(batch.column(2).to_pylist()):
            self._refused = True

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        self._look()
        return self._writer.flush(partitions)

    def commit(self) -> dict[TopicPartition, Offset]:
        self._look()
        return self._writer.commit()

    def _look(self) -> None:
        if self._refused:
            self._writer.close()
            error = LogError("record-refused", "the broker refused a record", "look at it")
            error.topic = self._topic
            raise error

    def abort(self) -> None:
        self._writer.abort()

    def close(self) -> None:
        self._writer.close()


class RefusingLog:
    """A log with a topic that does not take some values."""

    def __init__(self, log: Log, topic: str, values: Iterable[int]) -> None:
        self._log = log
        self._topic = topic
        self._values = {b"%d" % value for value in values}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> RefusingWriter:
        writer = self._log.writer(writer_id, open_seconds=open_seconds)
        return RefusingWriter(writer, self._topic, self._values)


def refusing(log: Log, topic: str = "out", values: Iterable[int] = tuple(BAD)) -> Log:
    """The log, with a topic that does not take some values."""
    made: Any = RefusingLog(log, topic, values)
    return made  # type: ignore[no-any-return]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    with closing(SqliteLog(tmp_path / "log.db")) as made:
        yield made


def read(log: Log, topic: str) -> list[ReadRow]:
    """All partitions, one after the other."""
    partitions = [TopicPartition(topic, number) for number in range(log.describe(topic).partitions)]
    ends = log.ends(partitions)
    return [
        row for one in partitions for batch in read_between(log, one, 0, ends[one]) for row in rows_of(batch)
    ]


def numbers(log: Log, topic: str) -> list[int]:
    return [int(row.value or b"") for row in read(log, topic)]


def send(fleet: Fleet, count: int = COUNT) -> None:
    for key in range(7):
        fleet.connection.send(IN, f"k{key}", *map(str, range(key, count, 7)))


def copying(policy: OnError | None) -> App:
    app = App("copies")
    app.stream(IN, on_error=policy).map(lambda value: value).to(OUT)
    return app


def stops(fleet: Fleet) -> LogError:
    with pytest.raises(LogError) as caught:
        fleet.catch_up(1)
    return caught.value


def test_refused_records_become_dead_letters_and_all_others_pass_in_order(
    log: SqliteLog, tmp_path: Path
) -> None:
    app = copying("dead-letter")
    fleet = Fleet(refusing(log), tmp_path, lambda: app)
    send(fleet)
    driver, launcher = fleet.catch_up(1)
    copies, letters = read(log, "out"), read(log, names.dead_letters("copies"))
    assert sorted(numbers(log, "out")) == sorted(set(range(COUNT)) - set(BAD))
    for key in range(7):
        own = [int(row.value or b"") for row in copies if row.key == b"k%d" % key]
        assert own == sorted(own), "each key in its order"
    assert sorted(int(row.value or b"") for row in letters) == BAD
    for row in letters:
        headers = dict(row.headers)
        topic, partition, offset = (headers[POSITION] or b"").decode().split("/")
        [there] = read_between(log, TopicPartition(topic, int(partition)), int(offset), int(offset) + 1)
        assert [(one.key, one.value) for one in rows_of(there)] == [(row.key, row.value)]
        assert headers[CODE] == b"record-refused"
    assert [warning.code for warning in driver.overview.warnings] == ["record-refused"]
    assert len(launcher.launched) == 1, "the slot's job went on"
    assert not driver.overview.failures


def test_after_refused_records_the_app_commits_as_before(log: SqliteLog, tmp_path: Path) -> None:
    app = copying("skip")
    fleet = Fleet(refusing(log), tmp_path, lambda: app)
    send(fleet, 100)
    with fleet.running(1) as (driver, _):
        wait_for(lambda: len(read(log, "out")) == 99)
        position = TopicPartition(names.positions("copies"), 0)
        wait_for(lambda: driver.state is DriverState.RUNNING)
        [before] = log.ends([position]).values()
        fleet.connection.send(IN, "k", *map(str, range(10_000, 12_000)))
        wait_for(lambda: len(read(log, "out")) == 2_099)
        [after] = log.ends([position]).values()
    assert after - before < 500, "not a transaction for each record"


def test_with_no_policy_the_app_stops_and_names_the_record(log: SqliteLog, tmp_path: Path) -> None:
    app = copying(None)
    fleet = Fleet(refusing(log), tmp_path, lambda: app)
    send(fleet)
    error = stops(fleet)
    assert error.code == "record-refused"
    assert "in/" in error.message
    assert "offset" in error.message
    Fleet(log, tmp_path, lambda: app).catch_up(1)
    assert sorted(numbers(log, "out")) == list(range(COUNT)), "nothing is lost, and nothing twice"


def test_the_policy_of_the_step_that_sent_it_counts(log: SqliteLog, tmp_path: Path) -> None:
    """The first step sends to another topic, which is taken back with the rest."""

    def forward(record: Record[str, str], ctx: Context[str, str]) -> None:
        ctx.forward(record)

    app = App("copies")
    stream = app.stream(IN, on_error="stop")
    stream.to(OTHER)
    stream.process("sends", forward, on_error="skip").to(OUT)
    fleet = Fleet(refusing(log), tmp_path, lambda: app)
    send(fleet, 1_000)
    fleet.catch_up(1)
    expected = sorted(set(range(1_000)) - set(BAD))
    assert sorted(numbers(log, "out")) == expected
    assert sorted(numbers(log, "other")) == expected


def test_a_dead_letter_that_is_refused_too_stops_the_app(log: SqliteLog, tmp_path: Path) -> None:
    app = copying("dead-letter")
    log_of_both = refusing(refusing(log), names.dead_letters("copies"))
    fleet = Fleet(log_of_both, tmp_path, lambda: app)
    send(fleet, 100)
    assert stops(fleet).code == "record-refused"
    Fleet(log, tmp_path, lambda: app).catch_up(1)
    assert sorted(numbers(log, "out")) == list(range(100))


def test_what_a_timer_sends_is_no_record_s_fault(log: SqliteLog, tmp_path: Path) -> None:
    class Late:
        sends = True

        def init(self, ctx: Context[str, str]) -> None:
            if self.sends:
                ctx.schedule(10, lambda now: ctx.forward(Record("k", "1500", now)), by="wall")

        def process(self, record: Record[str, str], ctx: Context[str, str]) -> None:
            ctx.forward(record)

    app = App("copies")
    app.stream(IN, on_error="skip").process("late", Late).to(OUT)
    fleet = Fleet(refusing(log, values=[1_500]), tmp_path, lambda: app)
    send(fleet, 100)
    driver, _ = fleet.driver(1)
    with pytest.raises(LogError, match="record-refused"):
        driver.run()
    passed = numbers(log, "out")
    assert len(passed) == len(set(passed))
    Late.sends = False
    Fleet(log, tmp_path, lambda: app).catch_up(1)
    assert sorted(numbers(log, "out")) == list(range(100)), "no record was skipped for it"


@dataclass
class Took:
    """What is asked of a task."""

    taken: int
    next: dict[TopicPartition, int]
    last: RecordPosition | None = field(default=None)


@given(st.integers(1, 3_000), st.sets(st.integers(0, 2_999), min_size=1, max_size=5), st.integers(1, 3_000))
def test_every_refused_record_is_found_in_few_openings(count: int, bad: set[int], first: int) -> None:
    bad = {number for number in bad if number < count}
    refusals, error = Refusals(), LogError("record-refused", "no", "")
    at = openings = 0
    skipped = []
    while at < count:
        taken = min(refusals.limit or first, count - at)
        fresh = [number for number in range(at, at + taken) if number in bad]
        if any((SOURCE, number) not in refusals.known for number in fresh):
            openings += 1
            assert refusals.add(error, [Took(taken, {SOURCE: at + taken}, (SOURCE, at + taken - 1))])
            continue
        skipped += fresh
        at += taken
        refusals.passed({SOURCE: at})
    assert skipped == sorted(bad)
    assert openings <= 5 * len(bad)
    assert refusals.limit is None


def test_errors_that_are_no_record_s_fault_are_not_looked_for() -> None:
    took = [Took(5, {SOURCE: 5})]
    assert not Refusals().add(LogError("log-unreachable", "gone", ""), took)
    assert not Refusals().add(LogError("record-refused", "no", ""), [])
    assert not Refusals().add(LogError("record-refused", "no", ""), [Took(0, {})])


def test_what_cannot_be_narrowed_down_any_more_is_given_up() -> None:
    refusals, error = Refusals(), LogError("record-refused", "no", "")
    assert refusals.add(error, [Took(5, {SOURCE: 5}, (SOURCE, 4))])
    assert refusals.limit == 1
    assert not refusals.add(error, [Took(2, {SOURCE: 2}, (SOURCE, 1))]), "else it would open for ever"
