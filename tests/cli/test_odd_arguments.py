"""Every command with wrong, missing, huge and odd arguments: a code and a hint, never a traceback or a hang.

The commands and their parameters are read from the command line itself, so a new one is walked too. What runs
for long or starts Spark is cut off behind its arguments.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.gate.app import EVENTS, gated
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.gate.query import GateQuery
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.state.verify import verify

LONGEST_SECONDS = 60
ODD = [
    "",
    "nan",
    "inf",
    "-1",
    "0",
    "1e300",
    "9" * 30,
    "9" * 5000,
    "x" * 70_000,
    "\udcff",
    "a\nb",
    "[red]x[/red]",
    "../..",
    "-",
    "--",
    "{}",
    "漢",
    "int",
    "door",
    "sqlite://",
    "kafka://",
]
GOOD = {
    "topic": "events",
    "name": "events",
    "gate": "door",
    "key": "ada",
    "store": "counted",
    "app": "gated",
}
"""What a required argument is given while another parameter is odd."""
ENDS = {"topics tail": ["--timeout", "0"], "stop": ["--wait", "0"]}
ENDLESS = {
    "demo": ("tidegate.cli.demo.orders.orders",),
    "run": ("tidegate.cli.run._run",),
    "serve": ("tidegate.server.serve.serve",),
    "doctor": ("tidegate.cli.doctor._java",),
}
"""What is replaced by nothing: with good arguments these start Spark, a server or Java, or end only by a
signal. That they work is shown by tests of their own; here each would run hundreds of times."""


def commands() -> Iterator[tuple[str, Any]]:
    def walk(group: Any, path: str) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{path}{name} ")
            else:
                yield f"{path}{name}", command

    return walk(ROOT, "")


ROOT = typer.main.get_command(app)
COMMANDS = dict(commands())


def calls(path: str) -> Iterator[list[str]]:
    """Each parameter of a command with each odd value; and the command with too few and too many."""
    params = COMMANDS[path].params
    arguments = [param for param in params if param.param_type_name == "argument"]
    good = [GOOD.get(param.name, "1") for param in arguments if param.required]
    ends = ENDS.get(path, [])
    yield []
    yield [*good, *ends, *("one" for _ in range(9))]
    yield [*good, "--no-such-option"]
    yield [*good, *ends]
    for param in params:
        if param.param_type_name == "argument":
            at = arguments.index(param)
            before = [GOOD.get(one.name, "1") for one in arguments[:at]]
            behind = [GOOD.get(one.name, "1") for one in arguments[at + 1 :] if one.required]
            for value in ODD:
                yield [*ends, "--", *before, value, *behind]
        elif getattr(param, "is_flag", False):
            yield [*good, *ends, param.opts[0]]
            yield [*good, *ends, *("1" for one in arguments[len(good) :][:1]), param.opts[0]]
        else:
            other = [] if param.opts[0] in ends else ends
            for value in ODD:
                yield [*good, *other, f"{param.opts[0]}={value}"]
            yield [*good, *other, param.opts[0]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An app that has run here, with a paused key, a held event and stores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_LOG", raising=False)
    (tmp_path / ".tidegate").mkdir()
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log:
        run = prepare(gated().build(), log, SystemClock(), partitions=2)
        GateQuery(log, run.manifest, "door", SystemClock()).commander.pause(b"ada")
        connection = Connection(log, partitions=2, clock=SystemClock(), owned=False)
        connection.send(EVENTS, "ada", 1, 2)
        connection.send(EVENTS, "bob", 3)
        [slot] = run.slots(tmp_path / ".tidegate" / "state", 1)
        for _ in range(20):
            slot.step(0.01)
            slot.commit()
        slot.close()
    return tmp_path


@pytest.mark.parametrize("path", COMMANDS)
def test_whatever_a_command_is_given_it_answers_with_a_code_and_a_hint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    assert folder
    for target in ENDLESS.get(path, ()):
        monkeypatch.setattr(target, lambda *_, **__: "")
    # In this process, and not in one of its own for each call: a test of `state check` shows that one.
    monkeypatch.setattr("tidegate.state.survey.verify_all", lambda folders: list(map(verify, folders)))
    wrong: list[Any] = []
    for arguments in calls(path):
        began = time.monotonic()
        given = [*path.split(), "--json", *arguments]
        ran = CliRunner().invoke(app, given, input="")
        if time.monotonic() - began > LONGEST_SECONDS:
            wrong.append((arguments, "took too long"))
        wrong += [(_short(arguments), why) for why in problems(ran)]
    assert not wrong, "\n".join(str(one) for one in wrong)


def problems(ran: Any) -> list[str]:
    """What is wrong with how a command ended."""
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        return [f"{type(ran.exception).__name__}: {str(ran.exception)[:200]}"]
    if ran.exit_code == 0:
        return []
    if ran.exit_code not in (1, 2):
        return [f"exit code {ran.exit_code}"]
    try:
        reported = json.loads(ran.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return [f"no JSON: {ran.stdout[-200:]!r} {ran.stderr[-200:]!r}"]
    if "error" not in reported:
        return []  # a check that found differences, reported in its own way
    error = reported["error"]
    found = [f"no {name}: {error}" for name in ("code", "message", "hint") if not error.get(name)]
    return found if len(ran.stdout) < 6000 else [*found, "a message without end"]


def _short(arguments: list[str]) -> list[str]:
    return [one if len(one) < 40 else f"{one[:20]}… ({len(one)})" for one in arguments]


def test_help_shows_its_texts_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Square brackets are not eaten as markup, in no help of any command and parameter."""
    monkeypatch.setenv("COLUMNS", "400")
    for path, command in COMMANDS.items():
        shown = " ".join(CliRunner().invoke(app, [*path.split(), "--help"]).stdout.split())
        texts = [command.help.split("\n\n")[0], *(param.help for param in command.params)]
        for text in texts:
            wanted = " ".join(text.replace("\\[", "[").split())
            assert wanted in shown, f"{path}: {wanted}"


@pytest.mark.parametrize(
    ("arguments", "json"),
    [
        (["--no-such-option"], False),
        (["no-such-command", "--json"], True),
        (["topics", "no-such-command"], False),
        (["topics", "tail", "events", "--limit", "0", "--json"], True),
        (["topics", "tail", "--json"], True),
    ],
)
def test_wrong_use_has_a_code_and_a_hint_too(arguments: list[str], json: bool) -> None:
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 2
    assert problems(ran) == [] if json else ran.stdout == ""
    assert ("bad-usage" in ran.stdout) is json
    assert (ran.stderr.startswith("[bad-usage] ") and "--help" in ran.stderr) is not json


@pytest.mark.parametrize("arguments", [[], ["topics"], ["gates"]])
def test_a_group_alone_prints_its_help(arguments: list[str]) -> None:
    ran = CliRunner().invoke(app, arguments)
    assert "Usage: " in ran.output
    assert "bad-usage" not in ran.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["pause", "door", "ada", "--reason", "\udcff"], "not-text"),
        (["pause", "door", "ada", "--actor", "a\udcffb"], "not-text"),
        (["state", "ls", "--state-dir", "x" * 300], "os-error"),
        (["tokens", "add", "eve", "--file", ""], "bad-option"),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_what_no_file_and_no_record_can_hold_is_refused_by_name(
    folder: Path, arguments: list[str], code: str, as_json: bool
) -> None:
    assert folder
    ran = CliRunner().invoke(app, [*arguments, *(["--json"] if as_json else [])])
    assert isinstance(ran.exception, SystemExit)
    assert ran.exit_code == 1
    assert code in (ran.stdout if as_json else ran.stderr)
    assert not as_json or problems(ran) == []
