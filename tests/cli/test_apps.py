"""`tidegate run|stop|describe|lag|doctor`, as far as they need no Spark."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.cli.conftest import Run
from tests.waiting import wait_for

from tidegate.cli.doctor_embedded import _found, _is_stopped
from tidegate.clock import ManualClock
from tidegate.errors import LogError
from tidegate.load import load_app
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.upkeep_lock import Report
from tidegate.log.topic import TopicSpec
from tidegate.testing import Driver
from tidegate.types import TopicPartition

MODULE = """
from tidegate import App, Settings, TableTopic, Topic

class Config(Settings):
    least: int = 0

LINES, COUNTS = Topic("lines", str), TableTopic("word-counts", int)
app = App("wordcount")
app.stream(LINES).flat_map(str.split).group_by("by-word", str).count("counts").to(COUNTS)

def with_settings(config: Config) -> App:
    made = App("settled")
    made.stream(LINES).filter(lambda line: len(line) >= config.least).to(Topic("long", str))
    return made

def with_text(config: str) -> App: ...

nothing = 7
"""
NAME = "cli_words"


@pytest.fixture(autouse=True)
def module(tmp_path: Path) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text(
        MODULE.replace("str.split", "words").replace(
            "app = App", "def words(line: str) -> list[str]:\n    return line.split()\n\napp = App", 1
        )
    )
    paths = list(sys.path)
    yield
    sys.path[:] = paths
    sys.modules.pop(NAME, None)


def ran_once(run: Run, folder: Path) -> None:
    """The app has worked on this log: two lines, and one more that it has not seen."""
    run("topics", "create", "lines", "--partitions", "2")
    sys.path.insert(0, str(folder))
    with closing(SqliteLog(folder / ".tidegate" / "log.db")) as log:
        app = load_app(f"{NAME}:app")
        lines = sys.modules[NAME].LINES
        with Driver(app, partitions=2, log=log, clock=ManualClock()) as driver:
            driver.send(lines, "k", "a b", "b c")
            driver.run()
            driver.stop()
            driver.send(lines, "k", "late")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere:app", "no-such-app"),
        (f"{NAME}:missing", "no-such-app"),
        (NAME, "no-such-app"),
        (f"{NAME}:nothing", "not-an-app"),
        (f"{NAME}:with_text", "not-an-app"),
    ],
)
def test_what_is_no_app_is_refused_before_anything_is_written(
    run: Run, tmp_path: Path, name: str, code: str
) -> None:
    assert run("run", name, "--json", code=1).json["error"]["code"] == code
    assert not (tmp_path / ".tidegate").exists()


def test_an_app_that_raises_while_it_is_imported_is_reported_with_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cli_broken.py").write_text("x = 1\nraise ValueError('no')\n")
    error = run("run", "cli_broken:app", "--json", code=1).json["error"]
    assert (error["code"], "cli_broken.py:2" in error["message"]) == ("broken-app", True)


def test_run_without_a_name_needs_one_in_the_settings(run: Run) -> None:
    assert run("run", "--json", code=1).json["error"]["code"] == "no-app"


def test_a_missing_source_is_reported_before_spark_starts(run: Run) -> None:
    run("topics", "create", "other")
    assert run("run", f"{NAME}:app", "--json", code=1).json["error"]["code"] == "no-such-topic"


def test_state_of_somebody_else_is_refused_before_spark_starts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topics", "create", "wordcount-counts-changelog", "--table")
    run("topics", "send", "wordcount-counts-changelog", "k", "v")
    monkeypatch.setenv("PATH", str(tmp_path))  # with no Java it could not go far
    unchanged(run, code="state-without-positions")


def unchanged(run: Run, *arguments: str, code: str) -> None:
    """The run is refused by name, in a few words, and the log is as it was."""
    run("topics", "create", "lines")
    before = run("topics", "list", "--json").json
    error = run("run", f"{NAME}:app", *arguments, "--json", code=1).json["error"]
    assert (error["code"], bool(error["hint"])) == (code, True)
    assert len(error["message"]) < 250
    assert run("topics", "list", "--json").json == before


def test_a_changed_app_is_refused_before_spark_starts_with_what_differs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran_once(run, tmp_path)
    path = tmp_path / f"{NAME}.py"
    path.write_text(
        path.read_text().replace('.group_by("by-word", str)', '.filter(bool).group_by("by-word", str)')
    )
    sys.modules.pop(NAME)
    monkeypatch.setenv("PATH", str(tmp_path))  # with no Java it could not go far
    monkeypatch.setenv("TIDEGATE_UPGRADE", "ask")
    error = run("run", f"{NAME}:app", "--json", code=1).json["error"]
    assert error["code"] == "changed-app"
    assert error["message"].endswith(f"before: new filter ({NAME}.py:12)")
    assert "tidegate reset wordcount" in error["hint"]


def test_a_missing_java_is_reported(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    unchanged(run, code="no-java")


def test_a_java_that_is_too_old_is_reported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    unchanged(run, code="old-java")


def test_a_master_that_does_not_answer_is_reported_at_once(run: Run) -> None:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        unchanged(run, "--master", f"spark://127.0.0.1:{one.getsockname()[1]}", code="no-spark")


def test_speculation_is_refused_before_spark_starts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text('[spark.conf]\n"spark.speculation" = "true"\n')
    unchanged(run, code="speculation")


def test_settings_reach_an_app_that_takes_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(f'app = "{NAME}:with_settings"\n[settings]\nleast = 3\n')
    assert run("describe", "--json").json["app"] == "settled"
    (tmp_path / "tidegate.toml").write_text(f'app = "{NAME}:with_settings"\n[settings]\nleats = 3\n')
    assert run("describe", "--json", code=1).json["error"]["code"] == "unknown-setting"


def test_describe_prints_text_and_a_picture(run: Run) -> None:
    assert "subtopology 1" in run("describe", f"{NAME}:app").out
    assert run("describe", f"{NAME}:app", "--mermaid").out.startswith("flowchart")


def test_lag_counts_what_each_task_has_before_it(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    shown = run("lag", "wordcount", "--json").json
    assert shown["lag"] == 1
    assert (
        sorted(task["topic"] for task in shown["tasks"])
        == ["lines"] * 2 + ["wordcount-by-word-repartition"] * 2
    )


def test_an_app_that_never_ran_is_named(run: Run) -> None:
    run("topics", "create", "lines")
    for command in ("lag", "stop", "reset"):
        assert run(command, "ghost", "--json", code=1).json["error"]["code"] == "never-started"


def test_a_stop_is_written_for_the_epoch_in_force(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    assert run("stop", "wordcount", "--wait", "0", "--json").json["epoch"] == 1


def test_doctor_reports_what_is_wrong(run: Run, tmp_path: Path) -> None:
    assert all(check["ok"] for check in run("doctor", "--json").json["checks"])
    (tmp_path / "tidegate.toml").write_text('[spark.conf]\n"spark.speculation" = "true"\n')
    shown = run("doctor", code=1)
    assert "spark.speculation is on" in shown.out


def test_doctor_shows_what_the_upkeep_could_not_do(run: Run, tmp_path: Path) -> None:
    assert "no round yet" in run("doctor").out
    path = tmp_path / ".tidegate" / "log.db"
    with closing(SqliteLog(path, upkeep=False)) as log:
        log.create(TopicSpec("events", 1, {"retention.ms": "1"}))
        log.append(TopicPartition("events", 0), to_batch([Row(b"k", b"v", 1)]))
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute("UPDATE span SET max_timestamp = 7")
        with pytest.raises(LogError):
            log.upkeep()
    assert "topic 'events', partition 0: [corrupt]" in " ".join(run("doctor", code=1).out.split())
    checks = run("doctor", "--json", code=1).lines[0]["checks"]
    assert [check["code"] for check in checks if not check["ok"]] == ["upkeep-failed"]


def test_doctor_names_a_process_that_is_stopped_within_a_round() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: _is_stopped(process.pid))
        began = Report(process.pid, began=1000.0)
        with pytest.raises(LogError, match=f"upkeep-stopped.* process {process.pid}"):
            _found(began, 1100.0)
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: not _is_stopped(process.pid))
        assert _found(began, 1100.0) == f"process {process.pid} is in a round for 100 s"
        process.communicate(b"\n")
    assert _found(Report(1, 1000.0, 1001.0), 1003.0) == "last round 2 s ago, by process 1"
