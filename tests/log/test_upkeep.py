"""The upkeep of the embedded log: stopped processes, damaged topics, writers that are gone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest
from tests.log.anatomy import check_batches, stored
from tests.waiting import wait_for

from tidegate.clock import ManualClock
from tidegate.errors import FencedError, LogError
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite import old_writers, upkeep
from tidegate.log.sqlite.layout import PAGE_SIZE
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

EVENTS = TopicPartition("events", 0)
HOUR, WEEK = 3_600_000, 7 * 24 * 3_600_000
BOUND = 24 << 20
STOPS = """
import os, signal, sys, threading, time
from pathlib import Path
from tidegate.log.faultpoints import installed
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite import upkeep
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import TopicPartition
def stop(point):
    if point == sys.argv[2]:
        print("stops", flush=True)
        # Not to the process: the main thread would take the signal, and this one might run on meanwhile.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
upkeep.ROUND_SECONDS = 0.3
log = SqliteLog(Path(sys.argv[1]), spill_bytes=100_000)
writer = log.writer("other")
writer.append(TopicPartition("events", 0), to_batch([Row(b"k", b"v", 1)]))
writer.commit()
with installed(stop):
    if sys.argv[2] == "spilled":
        for number in range(4):
            writer.append(TopicPartition("events", 0), to_batch([Row(b"k", os.urandom(60_000), 1)]))
        print("spilled", flush=True)
    time.sleep(600)
"""


@contextmanager
def process(path: Path, what: str) -> Iterator[subprocess.Popen[str]]:
    """Another process with the log open, that does its upkeep; returned when it has stopped itself at that
    point of it, or has spilled records. One that is stopped elsewhere may be in a transaction, and then the
    WAL grows."""
    command = [sys.executable, "-c", STOPS, str(path), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() in ("spilled\n", "stops\n")
            yield started
        finally:
            started.kill()


def opened(path: Path, clock: ManualClock | None = None, spill_bytes: int = 4 << 20) -> SqliteLog:
    log = SqliteLog(path, clock=clock, upkeep=False, spill_bytes=spill_bytes)
    log.create(TopicSpec("events", 1))
    return log


def some(size: int) -> Row:
    return Row(b"k", os.urandom(size), 1)


@pytest.mark.parametrize("where", ["log.upkeep.1", "log.upkeep.2"])
def test_the_wal_stays_short_while_a_process_that_did_the_upkeep_is_stopped(folder: Path, where: str) -> None:
    path = folder / "log.db"
    opened(path).close()
    with (
        process(path, where),
        closing(SqliteLog(path)) as log,
        closing(apsw.Connection(str(path))) as watcher,
    ):

        def to_move() -> int:
            pages, moved = watcher.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            return 0 if pages == moved else pages * PAGE_SIZE

        watcher.pragma("data_version")  # reads the WAL: before, SQLite does not know its length
        longest = 0
        for _ in range(60):
            log.append(EVENTS, to_batch([some(1_000_000)]))
            longest = max(longest, (path.with_name("log.db-wal")).stat().st_size)
            wait_for(lambda: to_move() < upkeep.WAL_ALONE_BYTES, 60, every=0.01)
        assert longest < BOUND


def test_others_do_the_rounds_while_one_is_stopped_between_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "log.db"
    opened(path).close()
    monkeypatch.setattr(upkeep, "ROUND_SECONDS", 0.3)  # a minute otherwise
    with process(path, "log.upkeep.2"), closing(SqliteLog(path)) as log:
        log.append(EVENTS, to_batch([some(10)]))
        wait_for(lambda: log.upkeep_report().pid == os.getpid(), 30)
        log.compact("events")


def damage(path: Path, query: str, *values: object) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(query, values)
    connection.close()


def test_a_damaged_topic_is_reported_and_the_others_have_their_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "log.db", ManualClock()
    short = {"retention.ms": "1"}
    with closing(SqliteLog(path, clock=clock, upkeep=False)) as log:
        for name, partitions in (("a", 1), ("b", 2), ("c", 1), ("d", 1)):
            log.create(TopicSpec(name, partitions, short))
            for number in range(partitions):
                log.append(TopicPartition(name, number), to_batch([Row(b"k", b"v", clock.now())]))
        damage(path, "UPDATE topic SET config = '{}' WHERE name = 'a'")
        key = stored(log)[TopicPartition("b", 0)].row.id
        damage(path, "UPDATE span SET max_timestamp = 7 WHERE partition = ?", key)
        clock.advance(1000)
        for _ in range(2):
            with pytest.raises(LogError, match="corrupt"), caplog.at_level(logging.ERROR):
                log.upkeep()
        places = [TopicPartition("b", 1), TopicPartition("c", 0), TopicPartition("d", 0)]
        assert [log.describe(one.topic).starts[one.partition] for one in places] == [1, 1, 1]
        reported = [(one.what, one.code) for one in log.upkeep_report().troubles]
    assert reported == [("topic 'a'", "corrupt"), ("topic 'b', partition 0", "corrupt")]
    assert [record.getMessage().split(":")[1] for record in caplog.records] == [
        " topic 'a'",
        " topic 'b', partition 0",
    ]


def spill(writer: object, count: int = 4) -> None:
    for _ in range(count):
        writer.append(EVENTS, to_batch([some(60_000)]))  # type: ignore[attr-defined]


def pending(log: SqliteLog) -> int:
    return check_batches(log)


def test_a_fenced_writer_spills_nothing(folder: Path) -> None:
    """Its successor has swept what was pending, and would not look again."""
    with closing(opened(folder / "log.db", spill_bytes=100_000)) as log:
        older = log.writer("w")
        spill(older)
        with closing(log.writer("w")):
            assert pending(log) == 0
            with pytest.raises(FencedError):
                spill(older)
            assert pending(log) == 0


def test_what_a_killed_process_left_pending_is_swept_after_an_hour(folder: Path) -> None:
    path, clock = folder / "log.db", ManualClock(int(time.time() * 1000))
    with closing(opened(path, clock)) as log:
        with process(path, "spilled"):
            pass
        assert pending(log) > 0
        clock.advance(HOUR // 2)
        log.upkeep()
        assert pending(log) > 0
        clock.advance(HOUR)
        log.upkeep()
        assert pending(log) == 0


def test_a_process_that_wakes_up_after_its_transaction_was_swept_is_fenced(folder: Path) -> None:
    clock = ManualClock()
    with closing(opened(folder / "log.db", clock, 100_000)) as log:
        asleep = log.writer("w")
        spill(asleep)
        asleep._live.is_open = False  # as another process would not be seen
        clock.advance(HOUR)
        log.upkeep()
        assert pending(log) == 0
        with pytest.raises(FencedError):
            asleep.commit()
        assert log.ends([EVENTS]) == {EVENTS: 0}


def test_a_live_transaction_is_never_swept(folder: Path) -> None:
    """However old it is, in this process or in another."""
    path, clock = folder / "log.db", ManualClock()
    with closing(opened(path, clock, 100_000)) as log, closing(opened(path, clock, 100_000)) as beside:
        writer = beside.writer("w")
        spill(writer)
        for _ in range(3):
            clock.advance(10 * WEEK)
            log.upkeep()
        spill(writer, 1)
        writer.commit()
        assert log.ends([EVENTS]) == {EVENTS: 5}


def test_another_process_notes_that_its_writers_live(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = folder / "log.db", ManualClock()
    with closing(opened(path, clock, 100_000)) as log:
        writer = log.writer("w")
        spill(writer)
        clock.advance(10 * WEEK)
        old_writers.record_alive(log._database, clock.now())  # what its upkeep thread does each minute
        monkeypatch.setattr(old_writers, "LIVE", old_writers.LiveWriters())  # from here on: another process
        log.upkeep()
        writer.commit()
        assert log.ends([EVENTS]) == {EVENTS: 4}


def writers(log: SqliteLog) -> list[str]:
    with log._database.read() as connection:
        return [name for (name,) in connection.execute("SELECT id FROM writer ORDER BY id")]


def test_rows_of_writers_not_seen_for_a_week_go_and_no_epoch_comes_back(folder: Path) -> None:
    clock = ManualClock()
    with closing(opened(folder / "log.db", clock)) as log:
        zombie = log.writer("old")
        zombie.append(EVENTS, to_batch([Row(b"k", b"zombie", 1)]))
        zombie._live.is_open = False
        for number in range(600):
            log.writer(f"call.{number}").close()
        clock.advance(WEEK - 1)
        log.upkeep()
        assert len(writers(log)) == 601
        log.writer("fresh").close()
        clock.advance(1)
        log.upkeep()
        assert writers(log) == ["fresh"]
        with log._database.read() as connection:
            seen = [key for (key,) in connection.execute("SELECT key FROM meta WHERE key LIKE 'seen/%'")]
        assert seen == ["seen/fresh"]
        successor = log.writer("old")
        with pytest.raises(FencedError):
            zombie.commit()
        successor.append(EVENTS, to_batch([Row(b"k", b"new", 1)]))
        successor.commit()
        reader = log.reader({EVENTS: Offset(0)})
        [fetched] = reader.poll(0)
        reader.close()
        assert fetched.batch.column(3).to_pylist() == [b"new"]


def test_writers_of_a_file_without_their_times_count_as_seen_now(folder: Path) -> None:
    path, clock = folder / "log.db", ManualClock()
    with closing(opened(path, clock)) as log:
        log.writer("w").close()
        damage(path, "DELETE FROM meta WHERE key LIKE 'seen/%'")
        log.upkeep()
        assert writers(log) == ["w"]
        clock.advance(WEEK)
        log.upkeep()
        assert writers(log) == []
