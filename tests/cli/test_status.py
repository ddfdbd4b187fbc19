"""`tidegate status`: how apps are doing, once, live and as JSON."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.gate.app import EVENTS, gated
from tests.server.test_watching import numbers, publish
from tests.waiting import wait_for

from tidegate.cli import status as command
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import request_stop, take_over
from tidegate.runtime.topics.control import Cause
from tidegate.runtime.topics.status import Failure
from tidegate.server import app_report, slot_status

CLOCK = SystemClock()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    """The log of the folder, with an app that has a plan of one slot."""
    (tmp_path / ".tidegate").mkdir()
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as made:
        prepared = prepare(gated().build(), made, CLOCK, partitions=2)
        with closing(take_over(made, "gated", 1, CLOCK)) as claim:
            prepared.plan(claim, {0: [task for _, task in prepared.tasks()]}, {0: "here"})
        Connection(made, partitions=2, clock=CLOCK, owned=False).send(EVENTS, "ada", *range(12))
        yield made


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that published something is at work also where the machine is slow; one that did so minutes ago
    is not, however new its plan is."""
    monkeypatch.setattr(slot_status, "SILENT_SECONDS", 60.0)
    monkeypatch.setattr(app_report, "PLAN_SECONDS", 0.0)
    monkeypatch.setattr(command, "LISTEN_SECONDS", 0.3)


def words(text: str) -> str:
    return " ".join(text.split())


def test_one_app_with_its_slots(run: Run, log: SqliteLog) -> None:
    publish(log, Failure(1, 0, 1, "slot-lost", "killed", "look", by_driver=True), numbers(0, running=4))
    out = run("status", "gated").out
    assert out == "".join(f"{line.rstrip()}\n" for line in out.splitlines()), "no padding in a pipe"
    shown = words(out)
    assert shown.startswith("gated running since 20")
    for part in (
        "slots 1 of 1 at work",
        "tasks 4 of 4 running",
        "lag 12 records",
        "restarts 0",
        "dead letters none",
        "slot 0, attempt 1: [slot-lost] killed Do: look",
        "slot state host tasks records/s lag restarts 0 running here 4/4 3 12 0",
    ):
        assert part in shown, (part, shown)


def test_as_json_one_object_or_all_apps(run: Run, log: SqliteLog) -> None:
    publish(log, numbers(0, running=4))
    one = run("status", "gated", "--json").json
    assert (one["app"], one["state"], one["lag"], one["epoch"]) == ("gated", "running", 12, 1)
    assert [app["state"] for app in run("status", "--json").json["apps"]] == ["running"]
    assert run("status", "--json").out.endswith("}\n")


def test_all_apps_a_line_each(run: Run, log: SqliteLog) -> None:
    publish(log, numbers(0, running=4))
    assert "gated running 0 s 1/1 4/4 12 0 0" in re.sub(r"\d+ s ", "0 s ", words(run("status").out))


def test_an_app_that_was_killed_is_silent_with_a_remark_on_what_to_do(run: Run, log: SqliteLog) -> None:
    publish(log, numbers(0, running=4), ago=120)
    shown = words(run("status", "gated").out)
    assert "gated silent since" in shown
    assert "(2 min)" in shown
    assert "To continue from the committed positions: tidegate run" in shown


def test_an_app_that_failed_shows_its_cause(run: Run, log: SqliteLog) -> None:
    request_stop(
        log, "gated", "driver", CLOCK.now(), 1, failure=Cause("user-code", "ValueError: no", "mend it")
    )
    shown = words(run("status", "gated").out)
    assert "gated failed since" in shown
    assert "the driver gave up: [user-code] ValueError: no Do: mend it" in shown


def test_a_slot_on_a_machine_whose_clock_is_wrong_is_listened_to(
    run: Run, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LISTEN_SECONDS", 30.0)  # the slot reports sooner, on any machine
    publish(log, numbers(0, running=4), ago=900)
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.1):
            publish(log, numbers(0, running=4), ago=900)

    slot = threading.Thread(target=work)
    slot.start()
    try:
        assert run("status", "gated", "--json").json["state"] == "running"
    finally:
        done.set()
        slot.join()


def test_nothing_ran_yet(run: Run) -> None:
    run("topics", "create", "lines")
    assert "no app ran on this log yet" in run("status").out
    assert run("status", "--json").json == {"apps": []}
    assert run("status", "ghost", "--json", code=1).json["error"]["code"] == "never-started"


def test_live_on_a_terminal_until_interrupted(tmp_path: Path, log: SqliteLog) -> None:
    publish(log, numbers(0, running=4))
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    arguments = [sys.executable, "-m", "tidegate", "status", "gated"]
    seen = b""
    with subprocess.Popen(arguments, stdout=theirs, stderr=theirs, env=env, cwd=tmp_path) as process:
        os.close(theirs)

        def shows(text: bytes) -> bool:
            nonlocal seen
            publish(log, numbers(0, running=4))
            seen += os.read(ours, 65536)
            return text in seen

        wait_for(lambda: shows(b"12 records"))
        Connection(log, partitions=2, clock=CLOCK, owned=False).send(EVENTS, "ada", *range(5))
        wait_for(lambda: shows(b"17 records"))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    os.close(ours)
    assert b"Traceback" not in seen
