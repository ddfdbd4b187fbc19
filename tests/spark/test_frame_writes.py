"""`write_topic` and attempts that Spark has given up: each row is written once, whenever they wake up.

No JVM is needed: an attempt is one call of the function that Spark runs on an executor. The protocol's steps
are those of `tidegate.spark.write` and `tidegate.spark.marks`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.repetitions import SOAK
from tests.waiting import HANG_SECONDS

from tidegate import LogError, TableTopic, Topic, connect
from tidegate.log.faultpoints import installed
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.spark.marks import MARKS, MARKS_TOPIC, STALE_MS, Mark, close_call, open_call, read_marks
from tidegate.spark.spool import Spool
from tidegate.spark.topic_source import shipped
from tidegate.spark.write import _write_micro_batch, _write_task
from tidegate.types import TopicPartition

POINTS = [f"frames.{number}" for number in range(1, 8)]
NOW = 1_700_000_000_000
ROWS = pa.RecordBatch.from_pydict({"key": ["a", "b"], "value": ["one", "two"]})
ATTEMPT = """
import os, signal, sys
import pyarrow as pa
from tidegate import TidegateError
from tidegate.log.faultpoints import installed
from tidegate.spark.write import _write_task
text, owner, point = sys.argv[1:]
rows = pa.RecordBatch.from_pydict({"key": ["a", "b"], "value": ["one", "two"]})
def stop(reached):
    if reached == point:
        print("stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
with installed(stop):
    try:
        list(_write_task(text, owner, iter([rows])))
        print("ended", flush=True)
    except TidegateError as error:
        print(error.code, flush=True)
"""


class Call:
    """One `write_topic` call without Spark: a topic of its own, attempts of its one task, and its end."""

    def __init__(self, place: LogLocation) -> None:
        self.owner = uuid.uuid4().hex
        self.topic = Topic(f"t{self.owner}", str, partitions=2)
        self.text = shipped(self.topic, place).as_text()
        self.place = place
        with self.opened() as log:
            log.create(TopicSpec(self.topic.name, 2))
            log.create(MARKS_TOPIC)
            open_call(log, self.owner, NOW)

    def opened(self) -> Any:
        return closing(open_log(self.place))

    def attempt(self, batches: Iterator[pa.RecordBatch] | None = None) -> None:
        list(_write_task(self.text, self.owner, batches or iter([ROWS])))

    def end(self) -> None:
        with self.opened() as log:
            close_call(log, self.owner, NOW)

    def written(self) -> list[str]:
        with connect(self.place.url) as log:
            return sorted(record.value for record in log.read(self.topic))

    def marks(self) -> list[Mark]:
        with self.opened() as log:
            return [mark for mark in read_marks(log) if mark.owner == self.owner]


class Stalled:
    """An attempt in a thread of its own that stands still at a point until it is woken."""

    def __init__(self, call: Call, point: str) -> None:
        self._call, self._point = call, point
        self._reached, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.code = ""

    def hook(self, point: str) -> None:
        if point == self._point and threading.current_thread() is self._thread:
            self._reached.set()
            assert self._woken.wait(HANG_SECONDS)

    def stall(self) -> None:
        self._thread.start()
        assert self._reached.wait(HANG_SECONDS)

    def wake(self) -> str:
        self._woken.set()
        self._thread.join(HANG_SECONDS)
        return self.code

    def _run(self) -> None:
        try:
            self._call.attempt()
            self.code = "ended"
        except LogError as error:
            self.code = error.code


@pytest.fixture
def embedded(tmp_path: Path) -> Call:
    return Call(LogLocation(f"sqlite:///{tmp_path}/log.db"))


@pytest.fixture(params=["sqlite", "kafka"])
def call(request: pytest.FixtureRequest, tmp_path: Path) -> Call:
    if request.param == "sqlite":
        return Call(LogLocation(f"sqlite:///{tmp_path}/log.db"))
    return Call(LogLocation(request.getfixturevalue("kafka").url))


@pytest.mark.parametrize("point", POINTS)
def test_an_attempt_that_wakes_when_the_call_has_ended_writes_nothing(embedded: Call, point: str) -> None:
    zombie = Stalled(embedded, point)
    with installed(zombie.hook):
        zombie.stall()
        embedded.attempt()
        embedded.end()
        assert embedded.marks() == []
        assert zombie.wake() in ("call-ended", "fenced")
    assert embedded.written() == ["one", "two"]
    assert embedded.marks() == []


@pytest.mark.parametrize("point", POINTS)
def test_an_attempt_that_wakes_when_the_call_has_failed_writes_nothing(embedded: Call, point: str) -> None:
    zombie = Stalled(embedded, point)
    with installed(zombie.hook):
        zombie.stall()
        embedded.end()
        assert zombie.wake() in ("call-ended", "fenced")
    assert embedded.written() == []
    assert embedded.marks() == []


@pytest.mark.parametrize("point", ["frames.3", "frames.7"])
def test_a_stopped_process_that_goes_on_after_the_call_writes_nothing(call: Call, point: str) -> None:
    command = [sys.executable, "-c", ATTEMPT, call.text, call.owner, point]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stopped\n"
        call.attempt()
        call.end()
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline().strip() in ("call-ended", "fenced")
    assert call.written() == ["one", "two"]
    assert call.marks() == []


@pytest.mark.parametrize("point", ["frames.close.2", "frames.close.3"])
def test_the_end_of_a_call_may_fail_half_way_and_still_nothing_is_written_twice(
    embedded: Call, point: str
) -> None:
    def fail(reached: str) -> None:
        if reached == point:
            raise LogError("log-unreachable", "away", "")

    embedded.attempt()
    with installed(fail), pytest.raises(LogError, match="away"):
        embedded.end()
    with pytest.raises(LogError, match="call-ended"):
        embedded.attempt()
    assert embedded.written() == ["one", "two"]


def test_a_task_that_runs_again_while_its_call_is_open_writes_nothing(embedded: Call) -> None:
    embedded.attempt()
    embedded.attempt()
    assert embedded.written() == ["one", "two"]
    assert {mark.kind for mark in embedded.marks()} == {"call", "written"}


def test_a_micro_batch_that_runs_again_writes_nothing(embedded: Call) -> None:
    for number in (0, 1, 0, 1):
        list(_write_micro_batch(embedded.text, "query", number, iter([ROWS])))
    assert embedded.written() == ["one", "one", "two", "two"]


def test_the_end_of_a_call_takes_away_what_a_killed_driver_left(embedded: Call) -> None:
    with embedded.opened() as log:
        open_call(log, "killed", NOW - STALE_MS - 1)
        open_call(log, "at-work", NOW - STALE_MS + 1)
    list(_write_micro_batch(embedded.text, "query", 7, iter([ROWS])))
    embedded.end()
    with connect(embedded.place.url) as opened:
        rows = opened.rows(TableTopic(MARKS.topic, bytes, key=bytes))
    assert sorted(rows) == [b'{"owner":"at-work","number":0,"kind":"call"}', b'{"owner":"query","number":0}']


@pytest.mark.soak
def test_no_transaction_is_open_while_spark_computes(call: Call) -> None:
    """Else Kafka ends it after 10 s, and each attempt after the first as well."""

    def slowly() -> Iterator[pa.RecordBatch]:
        partitions = [TopicPartition(call.topic.name, number) for number in range(2)]
        with call.opened() as log:
            for number in range(3):
                yield pa.RecordBatch.from_pydict({"key": ["a"], "value": [str(number)]})
                time.sleep(6 if SOAK else 0.2)
                taken.append(sum(log.ends(partitions, committed=False).values()))

    taken: list[int] = []
    call.attempt(slowly())
    assert taken == [0, 0, 0]
    assert call.written() == ["0", "1", "2"]


def test_the_log_has_all_rows_before_the_mark_is_appended(kafka: Any) -> None:
    """Others wait for the mark's transaction, so it is not held open while rows are sent."""
    call = Call(LogLocation(kafka.url, kafka={"producer": {"linger.ms": 5000}}))
    taken: dict[str, int] = {}

    def look(point: str) -> None:
        if point == "frames.6":
            with call.opened() as log:
                partitions = [TopicPartition(call.topic.name, number) for number in range(2)]
                taken[point] = sum(log.ends(partitions, committed=False).values())

    with installed(look):
        call.attempt()
    assert taken == {"frames.6": 2}
    assert call.written() == ["one", "two"]


def test_a_spool_returns_what_it_got_in_order_from_memory_and_from_a_file() -> None:
    places = [TopicPartition("words of ada", number % 3) for number in range(20)]
    batches = [
        to_batch([Row(b"k%d" % n, None if n % 4 else b"v" * n, n, [("h", b"%d" % n)])]) for n in range(20)
    ]
    for memory in (0, 1 << 20):
        with Spool(memory) as spool:
            for place, batch in zip(places, batches, strict=True):
                spool.add(place, batch)
            assert list(spool.batches()) == list(zip(places, batches, strict=True))
            assert spool.bytes == sum(batch.nbytes for batch in batches)
