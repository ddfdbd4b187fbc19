"""What a log refuses, or cannot do, has a code of its own: those that no other test is about."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pyarrow as pa
import pytest
from tests.simulator.model_log import ModelLog

from tidegate import connect
from tidegate.clock import ManualClock
from tidegate.connect import typed_records as sending
from tidegate.errors import ConfigError, LogError, TidegateError
from tidegate.log.reads import read_between, read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite import upkeep
from tidegate.log.sqlite.error_mapping import translated_errors
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.upkeep_lock import UpkeepLock
from tidegate.log.topic import TopicSpec
from tidegate.topics import Topic
from tidegate.types import Offset, TopicPartition

AT = TopicPartition("t", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def test_a_batch_of_other_columns_is_no_batch_of_records() -> None:
    with closing(SqliteLog()) as log:
        log.create(TopicSpec("t", 1))
        other = pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"v"]})
        with pytest.raises(ConfigError) as caught:
            log.append(AT, other)
        assert caught.value.code == "bad-batch"
        assert log.ends([AT]) == {AT: 0}


def test_an_old_sqlite_is_refused_before_the_file_is_touched(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions before 3.51.3 can lose what several writers wrote."""
    # The version of a library that is not installed.
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(LogError, match=r"3\.51\.2") as caught:
        SqliteLog(file)
    assert caught.value.code == "old-sqlite"
    assert not file.exists()
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.3")
    SqliteLog(file).close()


def test_a_log_that_another_process_keeps_locked_is_busy_and_works_again_later(file: Path) -> None:
    with closing(SqliteLog(file, upkeep=False)) as made:
        made.create(TopicSpec("t", 1))
    other = apsw.Connection(str(file))
    with closing(other), closing(SqliteLog(file, upkeep=False, busy_seconds=0.05)) as log:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError) as caught:
            log.append(AT, to_batch([Row(b"k", b"v", 0)]))
        assert (caught.value.code, caught.value.retryable) == ("log-busy", True)
        other.execute("ROLLBACK")
        log.append(AT, to_batch([Row(b"k", b"v", 0)]))
        assert log.ends([AT]) == {AT: 1}


def test_any_other_error_of_sqlite_has_a_code_too() -> None:
    with (
        closing(apsw.Connection(":memory:")) as connection,
        pytest.raises(LogError) as caught,
        translated_errors(),
    ):
        connection.execute("SELECT ?", ())
    assert (caught.value.code, isinstance(caught.value.__cause__, apsw.BindingsError)) == (
        "sqlite-error",
        True,
    )


def test_a_log_is_not_used_by_a_child_that_was_forked(file: Path) -> None:
    """In a process of its own: a fork of this one would take its threads' locks along."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tidegate.errors import LogError\n"
        "from tidegate.log.sqlite.log import SqliteLog\n"
        "log = SqliteLog(Path(sys.argv[1]), upkeep=False)\n"
        "if os.fork():\n"
        "    os.wait(); print(log.names(), flush=True); log.close()\n"
        "else:\n"
        "    try:\n"
        "        log.names()\n"
        "    except LogError as error:\n"
        "        print(error.code, flush=True)\n"
        "    os._exit(0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == ["forked", "[]"]


def test_a_compaction_waits_for_another_round_of_upkeep_and_not_for_ever(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LOCK_SECONDS", 0.1)  # a time-out that the test waits for
    other = UpkeepLock(file.with_name("log.db-upkeep"))
    with closing(SqliteLog(file, upkeep=False)) as log:
        log.create(TopicSpec("t", 1, {"cleanup.policy": "compact"}))
        log.append(AT, to_batch([Row(b"k", b"1", 0), Row(b"k", b"2", 0)]))
        assert other.take()
        with pytest.raises(LogError) as caught:
            log.compact("t")
        assert (caught.value.code, caught.value.retryable) == ("upkeep-elsewhere", True)
        other.release()
        log.compact("t")


def test_an_end_that_an_open_transaction_hides_is_not_reached() -> None:
    log = ModelLog(ManualClock())
    log.create(TopicSpec("t", 1))
    opened = log.writer("sleeper")
    opened.append(AT, to_batch([Row(b"k", b"open", 0)]))
    log.append(AT, to_batch([Row(b"k", b"committed", 0)]))
    with pytest.raises(LogError, match="offset 0, not up to 2") as caught:
        list(read_to_end(log, {AT: Offset(0)}, patience=0))
    assert (caught.value.code, caught.value.retryable) == ("end-not-reached", True)
    with pytest.raises(LogError, match="not up to 2") as caught:
        list(read_between(log, AT, 0, 2, patience=0))
    assert caught.value.code == "end-not-reached"
    opened.abort()
    assert [batch.num_rows for batch in read_between(log, AT, 0, 2)] == [1]


def test_one_call_sends_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_CALL_BYTES", 1000)  # so that a call reaches it
    with connect(f"sqlite:///{tmp_path}/log.db") as log:
        topic = Topic("t", bytes)
        log.send(topic, "k", bytes(300), bytes(300))
        with pytest.raises(TidegateError) as caught:
            log.send(topic, "k", bytes(400), bytes(400), bytes(400))
        assert caught.value.code == "too-much-at-once"
        assert sum(len(record.value) for record in log.read(topic)) == 600
