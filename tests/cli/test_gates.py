"""`tidegate pause`, `resume` and `gates`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.gate.app import EVENTS, PASSED, gated
from tests.gate.many import forbid_scans, many_statuses
from tests.gate.working import Working

from tidegate.clock import SystemClock
from tidegate.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.start import prepare
from tidegate.testing import Driver


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    (tmp_path / ".tidegate").mkdir()
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as made:
        yield made


@pytest.fixture
def working(log: SqliteLog, tmp_path: Path) -> Iterator[Working]:
    made = Working(log, tmp_path)
    yield made
    made.close()


def test_a_key_is_paused_looked_at_and_resumed(run: Run, log: SqliteLog, working: Working) -> None:
    assert working
    connection = Connection(log, partitions=2, clock=SystemClock(), owned=False)
    paused = run(
        "pause", "door", "ada", "--reason", "a dispute", "--actor", "eve", "--wait", "30", "--json"
    ).json
    assert (paused["gate"], paused["state"], paused["applied"]) == ("door", "paused", True)
    connection.send(EVENTS, "ada", 1, 2)
    connection.send(EVENTS, "bob", 3)
    run("pause", "gated/door", "bob", "--for", "3600", "--wait", "30")
    [told] = run("gates", "show", "door", "ada", "--json").json["keys"]
    assert (told["held"], told["status"]["state"], told["status"]["reason"]) == (True, "PAUSED", "a dispute")
    while run("gates", "list", "--json").json["gates"][0]["held"] < 2:
        pass
    [gate] = run("gates", "list", "--json").json["gates"]
    assert (gate["app"], gate["gate"], gate["paused"], gate["held"]) == ("gated", "door", 2, 2)
    held = run("gates", "held", "door", "ada", "--json").json
    assert [one["sequence"] for one in held["events"]] == [0, 1]
    assert held["events"][0]["from"].startswith("events/")
    assert "2 events wait" in run("gates", "held", "door", "ada", "--limit", "1").out
    assert "a dispute" in run("gates", "show", "door").out
    run("resume", "door", "ada", "--reason", "settled", "--wait", "30")
    history = run("gates", "history", "door", "ada", "--json").json["history"]
    assert [(one["state"], one["actor"] == "eve", one["reason"]) for one in history] == [
        ("PAUSED", True, "a dispute"),
        ("ACTIVE", False, "settled"),
    ]
    assert "settled" in run("gates", "history", "door", "ada").out


def test_everyone_is_paused_and_resumed(run: Run, working: Working) -> None:
    assert working
    done = run("pause", "door", "--everyone", "--wait", "30", "--json").json
    assert sorted(done["epochs"]) == ["0", "1"]
    assert "everyone is paused" in run("gates", "show", "door").out
    assert run("gates", "list", "--json").json["gates"][0]["everyone"] is True
    run("resume", "door", "--everyone", "--wait", "30")
    assert run("gates", "list", "--json").json["gates"][0]["everyone"] is False
    states = [one["state"] for one in run("gates", "history", "door", "--everyone", "--json").json["history"]]
    assert sorted(states) == ["ACTIVE", "ACTIVE", "PAUSED", "PAUSED"]


def test_what_nobody_applies_is_told_after_a_while(run: Run, log: SqliteLog) -> None:
    prepare(gated(), log, SystemClock(), partitions=2)
    told = run("pause", "door", "ada", "--wait", "0.2", "--json", code=1).json
    assert told["error"]["code"] == "not-applied"
    assert told["error"]["retryable"] is True


def test_without_waiting_it_is_written(run: Run, log: SqliteLog) -> None:
    prepare(gated(), log, SystemClock(), partitions=2)
    assert run("pause", "door", "ada", "--json").json["applied"] is False
    with Driver(gated(), log=log, partitions=2) as driver:
        driver.send(EVENTS, "ada", 1)
        driver.run()
        assert driver.gate("door").held("ada") == 1
        assert PASSED.name not in log.names() or driver.values(PASSED) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("pause", "window", "ada"), "no-such-gate"),
        (("resume", "other/door", "ada"), "no-such-gate"),
        (("pause", "door"), "no-key"),
        (("pause", "door", "ada", "--everyone"), "no-key"),
        (("pause", "door", "ada", "--for", "0"), "bad-expiry"),
        (("pause", "door", ""), "bad-key"),
        (("gates", "held", "window", "ada"), "no-such-gate"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    run: Run, log: SqliteLog, arguments: tuple[str, ...], code: str
) -> None:
    prepare(gated(), log, SystemClock(), partitions=2)
    assert run(*arguments, "--json", code=1).json["error"]["code"] == code
    with Driver(gated(), log=log, partitions=2) as driver:
        driver.run()
        assert driver.gate("door").audit() == []


def test_gates_are_listed_without_a_look_at_all_keys(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".tidegate").mkdir()
    with many_statuses(tmp_path / ".tidegate" / "log.db"):
        forbid_scans(monkeypatch)
        [gate] = run("gates", "list", "--json").json["gates"]
        assert (gate["paused"], gate["held"], gate["everyone"]) == (20, 2, False)


def test_a_log_without_gates_says_so(run: Run, log: SqliteLog) -> None:
    assert log
    assert "no gates" in run("gates", "list").out
    assert run("gates", "list", "--json").json == {"gates": []}


@pytest.mark.parametrize("named", [None, "processed-events"])
def test_a_reset_leaves_what_was_admitted_to_a_topic_of_the_users(
    run: Run, log: SqliteLog, named: str | None
) -> None:
    prepare(gated(admitted=named), log, SystemClock(), partitions=2)
    gone = run("reset", "gated", "--yes", "--json").json["topics"]
    assert {"gated-door-held-changelog", "gated-door-status-changelog"} <= set(gone)
    assert ("gated-door-admitted" in gone) == (named is None)
    assert named is None or named in log.names()
    assert "gated-door-status" in log.names(), "what was wished for stays"
