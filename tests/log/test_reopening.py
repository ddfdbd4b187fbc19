"""A log that is opened again: what a commit of unknown outcome spends, and what goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.log.faulty_vfs import FaultyVfs
from tests.runtime.fleet import wordcount

from tidegate.clock import SystemClock
from tidegate.errors import LogError
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.reopening import ReopeningLog
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.types import Offset, TopicPartition

CLOCK = SystemClock()
PLACE = TopicPartition("t", 0)


@pytest.fixture
def vfs() -> Iterator[FaultyVfs]:
    made = FaultyVfs()
    yield made
    made.unregister()


@pytest.fixture
def opened(vfs: FaultyVfs, tmp_path: Path) -> Callable[[], Log]:
    return lambda: SqliteLog(tmp_path / "log.db", upkeep=False, vfs=vfs.name)


@pytest.fixture
def log(opened: Callable[[], Log]) -> Iterator[ReopeningLog]:
    with closing(ReopeningLog(opened)) as made:
        yield made


def unknown(call: Callable[[], object]) -> None:
    with pytest.raises(LogError, match="commit-unknown"):
        call()


def put(log: Log, value: bytes) -> Offset:
    return log.append(PLACE, to_batch([Row(b"k", value, 1)]))


def test_all_calls_and_readers_go_on_after_a_failed_sync(log: ReopeningLog, vfs: FaultyVfs) -> None:
    log.create(TopicSpec("t"))
    before = log.id
    with closing(log.reader({PLACE: Offset(0)})) as reader:
        put(log, b"one")
        assert [one.batch.num_rows for one in reader.poll(5)] == [1]
        vfs.sync_fails(1)
        unknown(lambda: put(log, b"two"))
        assert vfs.heal()
        after = log.ends([PLACE])[PLACE]
        assert after in (1, 2), "it counts wholly or not at all"
        assert put(log, b"three") == after
        assert (log.id, log.names(), log.describe("t").partitions) == (before, ["t"], 1)
        seen: list[bytes] = []
        while b"three" not in seen:
            seen += [value for one in reader.poll(5) for value in one.batch.column(3).to_pylist()]
        assert seen == [b"two", b"three"][2 - after :]


def test_it_stays_spent_until_a_commit_is_on_the_disk(log: ReopeningLog, vfs: FaultyVfs) -> None:
    log.create(TopicSpec("t"))
    log.check()
    vfs.sync_fails(1, stays=True)
    unknown(lambda: put(log, b"one"))
    for _ in range(3):
        unknown(log.check)
        unknown(log.names)
    assert vfs.heal()
    log.check()
    put(log, b"two")


def test_a_log_that_is_not_spent_stays_as_it_is(opened: Callable[[], Log], vfs: FaultyVfs) -> None:
    """A writer of another kind of log may not know the outcome of a commit, and the log is well."""
    count = 0

    def counted() -> Log:
        nonlocal count
        count += 1
        return opened()

    with closing(ReopeningLog(counted)) as log:
        log.create(TopicSpec("t"))
        with pytest.raises(LogError, match="no-such-topic"):
            log.describe("none")
        vfs.disk_full(1, stays=False)
        with pytest.raises(LogError, match="disk-full"):
            put(log, b"one")
        vfs.heal()
        put(log, b"two")
        assert count == 1


def test_a_driver_goes_on_after_a_commit_of_unknown_outcome(log: ReopeningLog, vfs: FaultyVfs) -> None:
    """Its writer is regained as after every failure of the log; with a log that stays spent it never was."""
    prepare(wordcount().build(), log, CLOCK, partitions=2)
    with closing(take_over(log, "wordcount", 1, CLOCK)) as claim:
        vfs.sync_fails(1)
        unknown(lambda: claim.begin_attempt(0, 1, CLOCK.now()))
        assert vfs.heal()
        claim.regain(log)
        claim.begin_attempt(0, 2, CLOCK.now())
        assert read_control(log, "wordcount").attempt(ROLE, 0).attempt == 2
