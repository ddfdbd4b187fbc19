"""`tidegate reset`: what belongs to an app is deleted, if no run holds it and the user confirmed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.runtime.fleet import COUNTS, LINES, Fleet, expected, send
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock, SystemClock
from tidegate.errors import FencedError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.driver.takeover import request_stop, take_over
from tidegate.runtime.topics.status import Numbers, publish_status
from tidegate.testing import Driver
from tidegate.types import TopicPartition

APP = "wordcount"
OWN = {
    f"wordcount-{name}"
    for name in ("by-word-repartition", "counts-changelog", "positions", "status", "dead-letters", "control")
}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """The word count on the log that the commands use."""
    # Waited for in full by each reset of an app whose slots did not report their end.
    monkeypatch.setattr("tidegate.runtime.driver.reset.SILENT_SECONDS", 1.0)
    (tmp_path / ".tidegate").mkdir()
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log:
        made = Fleet(log, tmp_path)
        made.connection.send(LINES, "warm", "up")
        yield made


def test_a_reset_lists_what_it_deletes_and_leaves_the_rest(run: Run, fleet: Fleet) -> None:
    send(fleet, 0, 20)
    fleet.catch_up()
    shown = run("reset", APP, "--dry-run", "--json").json
    assert set(shown["topics"]) == OWN
    assert shown["topics"][-1] == names.control(APP), "a reset that is killed can be run again"
    assert set(fleet.log.names()) == OWN | {LINES.name, COUNTS.name}
    listed = run("reset", APP, "--yes").out
    assert all(topic in listed for topic in OWN)
    assert set(fleet.log.names()) == {LINES.name, COUNTS.name}
    fleet.catch_up()
    assert fleet.counts() == expected(20)


def test_without_a_terminal_a_reset_needs_yes(run: Run, fleet: Fleet) -> None:
    fleet.catch_up()
    before = fleet.log.names()
    assert run("reset", APP, "--json", code=1).json["error"]["code"] == "not-confirmed"
    assert "--yes" in run("reset", APP, code=1).err
    assert fleet.log.names() == before


@contextmanager
def reset_on_a_terminal(folder: Path, *options: str) -> Iterator[Callable[[str], tuple[int, str]]]:
    """`tidegate reset` once its question is on screen. The call answers it, and returns the exit code and all
    that was shown."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tidegate", "reset", APP, *options]
    env = {**os.environ, "COLUMNS": "500"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env
    ) as process:
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 1000)

        def answer(text: str) -> tuple[int, str]:
            nonlocal shown
            os.write(ours, text.encode() + b"\n")
            with suppress(OSError):  # Linux reports the other side's end as an error
                while more := os.read(ours, 1000):
                    shown += more
            return process.wait(HANG_SECONDS), shown.decode()

        yield answer
    os.close(ours)


@pytest.mark.parametrize("choice", ["y", "n"])
def test_on_a_terminal_a_reset_asks(fleet: Fleet, tmp_path: Path, choice: str) -> None:
    fleet.catch_up()
    with reset_on_a_terminal(tmp_path) as answer:
        code, shown = answer(choice)
    assert code == (0 if choice == "y" else 1)
    assert "wordcount-positions" in shown.partition("[y/N]")[0], "what it deletes is listed before it asks"
    assert (names.positions(APP) in fleet.log.names()) is (choice == "n")


def test_a_reset_is_refused_while_a_run_holds_the_app(run: Run, fleet: Fleet) -> None:
    with fleet.running() as (driver, _):
        wait_for(lambda: driver.state is DriverState.RUNNING and len(driver.overview.numbers) == 2)
        error = run("reset", APP, "--yes", "--json", code=1).json["error"]
        assert error["code"] == "app-running"
        assert "is running" in error["message"]
        assert "--force" in error["hint"]
        send(fleet, 0, 20)
        wait_for(lambda: fleet.counts() == expected(20))
        assert driver.state is DriverState.RUNNING
    assert set(run("reset", APP, "--yes", "--json").json["topics"]) == OWN


def test_a_run_that_was_killed_holds_the_app_until_it_is_stopped_or_forced(run: Run, fleet: Fleet) -> None:
    """Nothing in the log shows whether it lives: it may be starting."""
    fleet.catch_up()
    take_over(fleet.log, APP, 1, SystemClock()).close()
    error = run("reset", APP, "--yes", "--json", code=1).json["error"]
    assert (error["code"], "killed" in error["message"]) == ("app-running", True)
    run("stop", APP, "--wait", "0")
    run("reset", APP, "--yes")
    assert names.control(APP) not in fleet.log.names()


def test_a_stopping_run_holds_the_app_until_its_slots_have_ended(run: Run, fleet: Fleet) -> None:
    with closing(take_over(fleet.prepared(), APP, 1, SystemClock())) as claim:
        claim.write_plan({0: []}, {0: ""}, [], {}, 1)
    request_stop(fleet.log, APP, "user", SystemClock().now())
    over = threading.Event()

    def report() -> None:
        while not over.wait(0.1):
            publish_status(fleet.log, APP, Numbers(1, 0, 1, 0, 0.0, 0, 0, 1, 0), SystemClock().now())

    slot = threading.Thread(target=report)
    slot.start()
    error = run("reset", APP, "--yes", "--json", code=1).json["error"]
    assert (error["code"], "is ending" in error["message"]) == ("app-running", True)
    over.set()
    slot.join()
    run("reset", APP, "--yes")
    assert not OWN & set(fleet.log.names())


def test_a_forced_reset_ends_the_run_first(run: Run, fleet: Fleet) -> None:
    send(fleet, 0, 20)
    with fleet.running() as (driver, _):
        wait_for(lambda: fleet.counts() == expected(20))
        run("reset", APP, "--force", "--yes")
        wait_for(lambda: driver.state in (DriverState.STOPPED, DriverState.FAILED))
    assert not OWN & set(fleet.log.names())
    fleet.catch_up()
    assert fleet.counts() == expected(20)


def test_a_zombie_of_a_run_that_does_not_answer_is_fenced_by_a_forced_reset(run: Run, fleet: Fleet) -> None:
    claim = take_over(fleet.prepared(), APP, 1, SystemClock())
    zombie = fleet.log.writer(claim.writer_id(0))
    zombie.append(TopicPartition(COUNTS.name, 0), to_batch([Row(b"ghost", b"\x80" + bytes(7), 1)]))
    claim.write_plan({0: []}, {0: ""}, [], {}, 1)
    run("reset", APP, "--force", "--yes")
    with pytest.raises(FencedError):
        zombie.commit()
    claim.close()


def test_a_run_that_takes_the_app_over_meanwhile_ends_the_reset(run: Run, fleet: Fleet) -> None:
    fleet.catch_up()
    arrivals = 0

    def start(point: str) -> None:
        nonlocal arrivals
        arrivals += point == "reset.4"
        if arrivals == 2 and point == "reset.4":
            take_over(fleet.log, APP, 1, SystemClock()).close()

    with installed(start):
        assert run("reset", APP, "--yes", "--json", code=1).json["error"]["code"] == "fenced"
    assert names.control(APP) in fleet.log.names()


@pytest.mark.parametrize("force", [False, True])
def test_a_run_that_starts_while_the_question_is_on_screen_is_not_deleted(
    fleet: Fleet, tmp_path: Path, force: bool
) -> None:
    fleet.catch_up()
    before = set(fleet.log.names())
    with reset_on_a_terminal(tmp_path, *(["--force"] if force else [])) as answer:
        send(fleet, 0, 20)
        fleet.catch_up()
        code, shown = answer("y")
    if force:
        assert code == 0
        assert not OWN & set(fleet.log.names())
        return
    assert code == 1
    assert "app-running" in shown
    assert "nothing was deleted" in shown
    assert set(fleet.log.names()) == before
    send(fleet, 20, 20)
    fleet.catch_up()
    assert fleet.counts() == expected(40)


def test_a_reset_that_was_killed_can_be_run_again(run: Run, fleet: Fleet) -> None:
    fleet.catch_up()
    arrivals = 0

    def kill(point: str) -> None:
        nonlocal arrivals
        arrivals += point == "reset.4"
        if arrivals == 4:
            raise KeyboardInterrupt

    with installed(kill):
        run("reset", APP, "--yes", code=130)
    with pytest.raises(Exception, match=r"positions-missing|topic-recreated"):
        fleet.catch_up()
    run("reset", APP, "--force", "--yes")
    fleet.catch_up()
    assert fleet.counts() == {"up": 1}


MODULE = """
from tidegate import App, TableTopic, Topic

app = App("wordcount")
counted = app.stream(Topic("lines", str)).group_by("by-word", str).count("counts")
counted.to(TableTopic("word-counts", int))
"""


def test_what_is_left_of_an_app_whose_control_topic_is_lost_is_found_by_its_module(
    run: Run, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.catch_up()
    fleet.log.delete(names.control(APP))
    (tmp_path / "lost_words.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run("reset", APP, "--yes", "--json", code=1).json["error"]["code"] == "never-started"
    gone = run("reset", "lost_words:app", "--yes", "--json").json["topics"]
    assert set(gone) == OWN - {names.control(APP)}
    fleet.catch_up()
    assert fleet.counts() == {"up": 1}


def test_a_topic_that_another_app_owns_too_stays(run: Run, fleet: Fleet) -> None:
    """Two apps that shared a changelog before that was refused."""
    make(fleet.log, "shop", "eu-totals")
    manifest, _ = fold(fleet.log, TopicPartition(names.control("shop"), 0))[b"manifest/1"]
    fleet.log.create(TopicSpec("shop-eu-control", 1, {"cleanup.policy": "compact"}))
    copied = manifest.replace(b'"app":"shop"', b'"app":"shop-eu"')
    fleet.log.append(TopicPartition("shop-eu-control", 0), to_batch([Row(b"manifest/1", copied, 1)]))
    shown = run("reset", "shop", "--force", "--yes", "--json").json
    assert shown["shared"] == {"shop-eu-totals-changelog": "shop-eu"}
    assert "shop-eu-totals-changelog" not in shown["topics"]
    assert "shop-eu-totals-changelog" in fleet.log.names()
    assert "shop-positions" not in fleet.log.names()


def make(log: Log, app: str, store: str) -> None:
    made = App(app)
    made.stream(Topic("in", int)).count(store).to(TableTopic("rows", int))
    with Driver(made, log=log, clock=ManualClock()) as driver:
        driver.run()
