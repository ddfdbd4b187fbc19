"""`tidegate pause`, `resume` and `gates`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.gate.app import EVENTS, PASSED, gated
from tests.gate.many import many_statuses
from tests.gate.working import Working
from tests.waiting import wait_for

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.route import partitions_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.testing import Driver
from tidegate.types import TopicPartition


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


def passed(log: SqliteLog) -> int:
    """How many events the gate let pass."""
    if PASSED.name not in log.names():
        return 0
    return sum(log.ends(partitions_of(log.describe(PASSED.name))).values())


def test_a_key_is_paused_looked_at_and_resumed(run: Run, log: SqliteLog, working: Working) -> None:
    assert working
    connection = Connection(log, partitions=2, clock=SystemClock(), owned=False)
    paused = run(
        "pause", "door", "ada", "--reason", "a dispute", "--actor", "eve", "--wait", "30", "--json"
    ).json
    assert (paused["gate"], paused["state"], paused["applied"]) == ("door", "paused", True)
    connection.send(EVENTS, "ada", 1, 2)
    connection.send(EVENTS, "bob", 3)
    wait_for(lambda: passed(log) == 1)  # or the pause might hold it too
    run("pause", "gated/door", "bob", "--for", "3600", "--wait", "30")
    [reported] = run("gates", "show", "door", "ada", "--json").json["keys"]
    assert (reported["held"], reported["status"]["state"], reported["status"]["reason"]) == (
        True,
        "PAUSED",
        "a dispute",
    )
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


def test_a_gate_is_paused_and_resumed_gate_wide(run: Run, working: Working) -> None:
    assert working
    done = run("pause", "door", "--all-keys", "--wait", "30", "--json").json
    assert sorted(done["epochs"]) == ["0", "1"]
    assert "the gate is paused" in run("gates", "show", "door").out
    assert run("gates", "list", "--json").json["gates"][0]["gate_wide"] is True
    run("resume", "door", "--all-keys", "--wait", "30")
    assert run("gates", "list", "--json").json["gates"][0]["gate_wide"] is False
    states = [one["state"] for one in run("gates", "history", "door", "--all-keys", "--json").json["history"]]
    assert sorted(states) == ["ACTIVE", "ACTIVE", "PAUSED", "PAUSED"]


def test_a_pause_that_no_gate_applies_is_reported_after_a_while(run: Run, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    shown = run("pause", "door", "ada", "--wait", "0.2", "--json", code=1).json
    assert shown["error"]["code"] == "not-applied"
    assert "tidegate status gated" in shown["error"]["hint"]
    assert shown["error"]["retryable"] is True


def test_a_pause_without_waiting_is_written_and_not_yet_applied(run: Run, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
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
        (("pause", "door", "ada", "--all-keys"), "bad-option"),
        (("gates", "history", "door", "ada", "--all-keys"), "bad-option"),
        (("pause", "door", "1", "--key-type", "int"), "other-key-type"),
        (("resume", "door", "1", "--key-type", "java-long"), "other-key-type"),
        (("gates", "show", "door", "1", "--key-type", "bool"), "other-key-type"),
        (("pause", "door", ""), "bad-key"),
        (("gates", "held", "window", "ada"), "no-such-gate"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    run: Run, log: SqliteLog, arguments: tuple[str, ...], code: str
) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    assert run(*arguments, "--json", code=1).json["error"]["code"] == code
    with Driver(gated(), log=log, partitions=2) as driver:
        driver.run()
        assert driver.gate("door").audit() == []


@pytest.mark.parametrize("command", ["pause", "resume", "stop"])
@pytest.mark.parametrize("given", ["nan", "inf", "-inf", "-1", "-0.001", "1e300", "86401", "soon", ""])
def test_a_wait_that_is_no_duration_is_refused_at_once(
    run: Run, log: SqliteLog, command: str, given: str
) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    about = ("gated",) if command == "stop" else ("door", "ada")
    shown = run(command, *about, f"--wait={given}", "--json", code=2).json["error"]
    assert shown["code"] == "bad-usage"
    assert "seconds from 0 to 86400" in shown["message"]
    assert shown["hint"] == f"tidegate {command} --help"
    ends = log.ends([TopicPartition("gated-door-status", number) for number in range(2)])
    assert set(ends.values()) == {0}


@pytest.mark.parametrize("given", ["nan", "inf", "-1", "0", "1e300", "316224001"])
def test_a_pause_lasts_for_a_while_that_can_be_written_down(run: Run, log: SqliteLog, given: str) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    assert (
        run("pause", "door", "ada", f"--for={given}", "--json", code=2).json["error"]["code"] == "bad-usage"
    )
    run("pause", "door", "ada", "--for", "316224000")
    ends = log.ends([TopicPartition("gated-door-status", number) for number in range(2)])
    assert sorted(ends.values()) == [0, 1]


def test_a_gate_name_of_two_apps_needs_the_app(run: Run, log: SqliteLog) -> None:
    for name in ("east", "west"):
        app = App(name)
        app.stream(Topic(f"{name}-events", int)).gate("door").to(Topic(f"{name}-passed", int))
        prepare(app.build(), log, SystemClock(), partitions=2)
    for command in (("pause", "door", "ada"), ("gates", "show", "door"), ("gates", "history", "door", "ada")):
        error = run(*command, "--json", code=1).json["error"]
        assert (error["code"], error["hint"]) == ("which-app", "name one of: east/door, west/door")
    assert run("pause", "west/door", "ada", "--json").json["gate"] == "door"


def test_keys_are_of_the_type_that_the_gate_s_are(run: Run, log: SqliteLog) -> None:
    """Without a type they are read as the gate's own: `7` as text would pause a key that no event has."""
    app = App("numbers")
    numbers = Topic("numbers", int, key=int)
    app.stream(numbers).gate("turnstile").to(Topic("let-in", int, key=int))
    raw = Topic("raw", int, key=bytes)
    app.stream(raw).gate("hatch").to(Topic("let-out", int, key=bytes))
    prepare(app.build(), log, SystemClock(), partitions=1)
    run("pause", "turnstile", "7")
    run("pause", "turnstile", "8", "--key-type", "int")
    assert run("pause", "turnstile", "x", "--json", code=1).json["error"]["code"] == "unencodable"
    assert run("pause", "turnstile", "7", "--key-type", "str", "--json", code=1).json["error"]["code"] == (
        "other-key-type"
    )
    assert run("pause", "hatch", "7", "--key-type", "int", "--json", code=1).json["error"]["code"] == (
        "other-key-type"
    )
    run("pause", "hatch", "\udcff")
    run("pause", "hatch", "ada", "--key-type", "str")
    with Driver(app, log=log, partitions=1) as driver:
        driver.send(numbers, 7, 1)
        driver.send(numbers, 8, 1)
        driver.send(raw, b"\xff", 1)
        driver.send(raw, b"ada", 1)
        driver.run()
        assert [driver.gate("turnstile").held(key) for key in (7, 8)] == [1, 1]
        assert [driver.gate("hatch").held(key) for key in (b"\xff", b"ada")] == [1, 1]
    assert run("gates", "held", "turnstile", "7", "--json").json["held"] == 1


def test_show_ends_at_its_limit(run: Run, log: SqliteLog) -> None:
    with Driver(gated(), log=log, partitions=2) as driver:
        for number in range(5):
            driver.gate("door").pause(f"key-{number}")
        driver.run()
    shown = run("gates", "show", "door", "--limit", "3", "--json").json
    assert ([one["key"] for one in shown["keys"]], shown["more"]) == (["key-0", "key-1", "key-2"], True)
    assert run("gates", "show", "door", "--limit", "5", "--json").json["more"] is False
    assert "raise --limit" in run("gates", "show", "door", "--limit", "3").err


def test_gates_are_listed_without_a_look_at_all_keys(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".tidegate").mkdir()
    with many_statuses(tmp_path / ".tidegate" / "log.db"):
        [gate] = run("gates", "list", "--json").json["gates"]
        assert (gate["paused"], gate["held"], gate["gate_wide"]) == (20, 2, False)


def test_a_log_without_gates_lists_none(run: Run, log: SqliteLog) -> None:
    assert log
    assert "no gates" in run("gates", "list").out
    assert run("gates", "list", "--json").json == {"gates": []}


@pytest.mark.parametrize("named", [None, "processed-events"])
def test_a_reset_leaves_what_was_admitted_to_a_topic_of_the_users(
    run: Run, log: SqliteLog, named: str | None
) -> None:
    prepare(gated(admitted=named).build(), log, SystemClock(), partitions=2)
    gone = run("reset", "gated", "--yes", "--json").json["topics"]
    assert {"gated-door-held-changelog", "gated-door-status-changelog"} <= set(gone)
    assert ("gated-door-admitted" in gone) == (named is None)
    assert named is None or named in log.names()
    assert "gated-door-status" in log.names(), "what was wished for stays"
