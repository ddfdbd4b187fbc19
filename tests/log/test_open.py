"""URLs of logs: what they open, and what is refused before anything is touched."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.clock import ManualClock
from tidegate.errors import ConfigError, LogError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition


def test_a_relative_path_starts_at_the_folder(tmp_path: Path) -> None:
    with closing(open_log(LogLocation("sqlite:///below/log.db", tmp_path))) as log:
        assert isinstance(log, SqliteLog)
    assert (tmp_path / "below" / "log.db").is_file()


def test_an_absolute_path_is_itself(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    with closing(open_log(LogLocation(f"sqlite:///{file}", tmp_path / "elsewhere"))):
        assert file.is_file()


def test_no_path_is_a_log_in_memory_of_its_own(tmp_path: Path) -> None:
    with closing(open_log(LogLocation("sqlite://", tmp_path))) as log:
        log.create(TopicSpec("a"))
        with closing(open_log(LogLocation("sqlite://", tmp_path))) as other:
            assert other.names() == []
    assert list(tmp_path.iterdir()) == []


def test_the_clock_is_the_logs(tmp_path: Path) -> None:
    with closing(open_log(LogLocation("sqlite://", tmp_path), clock=ManualClock(1_000))) as log:
        log.create(TopicSpec("a", config={"message.timestamp.after.max.ms": "10"}))
        log.append(TopicPartition("a", 0), to_batch([Row(None, b"", 1_010)]))
        with pytest.raises(LogError, match="bad-timestamp"):
            log.append(TopicPartition("a", 0), to_batch([Row(None, b"", 1_011)]))


def test_a_login_in_the_url_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        open_log(LogLocation("kafka://user:secret@broker:9092", tmp_path))
    assert error.value.code == "bad-log-url"
    assert "secret" not in str(error.value)


WRONG = ["", "log.db", "sqlite", "sqlite:", "sqlite:/log.db", "sqlite:///", "sqlite://host/log.db"]
WRONG += ["mysql://a/b", "sqlite:///log.db?mode=ro", "sqlite:///log.db#x", "sqlite:///a\0b"]
WRONG += ["sqlite:///~/log.db", "://", "a" * 999, "kafka", "kafka://a:1/topic", "kafka://a:1?acks=0"]
WRONG += ["kafka://a:1,,b:2", "kafka://a b"]


@pytest.mark.parametrize("url", WRONG)
def test_anything_else_is_refused_by_name_and_touches_nothing(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_log(LogLocation(url, tmp_path))
    assert error.value.code == "bad-log-url"
    assert "sqlite:///" in error.value.hint
    assert len(error.value.message) < 300
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["postgres://user:c4n4ry@host/db", "user:c4n4ry@host", "x://c4n4ry/c4n4ry@host"]
)
def test_a_password_in_a_wrong_url_is_not_printed(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_log(LogLocation(url, tmp_path))
    assert "c4n4ry" not in str(error.value)
    assert "host" in error.value.message


def test_a_log_that_must_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LogError) as error:
        open_log(LogLocation("sqlite:///log.db", tmp_path), create=False)
    assert error.value.code == "no-log"
    assert list(tmp_path.iterdir()) == []


def foreign_sqlite(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
        connection.execute("INSERT INTO theirs VALUES (42)")
        connection.commit()


@pytest.mark.parametrize("content", ["sqlite", b"", b"text of another program" * 50])
def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "log.db"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        foreign_sqlite(file)
    before = file.read_bytes()
    with pytest.raises(LogError) as error:
        open_log(LogLocation("sqlite:///log.db", tmp_path))
    assert (error.value.code, bool(error.value.hint)) == ("not-a-log", True)
    assert file.read_bytes() == before


def test_a_place_where_no_file_can_be_is_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for url in ("sqlite:///file/log.db", f"sqlite:///{'a' * 300}/log.db", f"sqlite:///{'a' * 300}"):
        with pytest.raises(LogError) as error:
            open_log(LogLocation(url, tmp_path))
        assert (error.value.code, bool(error.value.hint)) == ("cannot-open", True)


@pytest.mark.slow
def test_opening_loads_no_kafka() -> None:
    probe = "import sys, tidegate.log.open; print('confluent_kafka' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
