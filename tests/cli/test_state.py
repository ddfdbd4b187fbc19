"""`tidegate state` looks at what a task left on this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate import stores
from tidegate.cli.main import app
from tidegate.clock import SystemClock
from tidegate.log.positions import Position, TaskId, positions_topic
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.slot.commit import commit
from tidegate.state.changelog import changelog_spec
from tidegate.state.environment import Environment
from tidegate.state.folders import task_home
from tidegate.state.lmdb_store import LmdbStore
from tidegate.state.manager import Owner, StateManager
from tidegate.state.restore import Restore

TASK = TaskId("totals", 1, 0, 0)
COUNTS = stores.key_value("counts", int)
SEEN = stores.timestamped("seen", str, key=int)
WINDOWS = stores.window("windows", int, size=10, retention=1000)


class Task:
    """The least that can be committed."""

    id = TASK

    def __init__(self, state: StateManager) -> None:
        self.state = state

    def send_time(self) -> None:
        """It has no internal topics."""

    def moved(self) -> bool:
        return True

    def outputs(self) -> list[Any]:
        return []

    def position(self, changelogs: dict[str, int]) -> Position:
        return Position(changelogs=changelogs)

    def committed(self, position: Position) -> None:
        """Nothing to forget."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task with three stores, committed, persisted and closed; one commit more in the log alone."""
    monkeypatch.chdir(tmp_path)
    log = SqliteLog(tmp_path / ".tidegate" / "log.db")
    log.create(positions_topic("shop"))
    folder = task_home(tmp_path / ".tidegate" / "state", "shop", TASK)
    state = StateManager(Owner("shop", TASK, log.id), folder, SystemClock())
    for builder in (COUNTS, SEEN, WINDOWS):
        log.create(changelog_spec(f"shop-{builder.name}-changelog", 1, {}))
        state.register(builder, f"shop-{builder.name}-changelog")
    restore = Restore(state, log, Position(changelogs={"counts": 0, "seen": 0, "windows": 0}))
    restore.open()
    restore.run()
    writer = log.writer("w")
    for word in ("ada", "bob", "cy"):
        state.store(COUNTS).put(word, len(word))
    state.store(SEEN).put(-5, "early", 1_700_000_000_000)
    state.store(WINDOWS).put("ada", 20, 7)
    commit("shop", log, writer, [Task(state)], SystemClock())
    state.persist_now()
    state.store(COUNTS).delete("bob")
    commit("shop", log, writer, [Task(state)], SystemClock())
    state.drop()
    log.close()
    return folder


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["state", *words])
    return result.exit_code, result.output


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("home")
def test_ls_shows_each_store_with_its_rows_and_offset() -> None:
    code, text = run("ls", "--json")
    assert code == 0
    found = {row["store"]: row for row in json.loads(text)["stores"]}
    assert {name: (row["rows"], row["offset"]) for name, row in found.items()} == {
        "counts": (3, 3),
        "seen": (1, 1),
        "windows": (1, 1),
    }
    assert "totals.g1/0_0" in run("ls")[1]


@pytest.mark.usefixtures("home")
def test_get_shows_a_row_by_the_type_that_the_store_has() -> None:
    assert run("get", "counts", "ada") == (0, "ada  3\n")
    assert lines(run("get", "seen", "--json", "--", "-5")[1]) == [
        {"task": "totals.g1/0_0", "key": -5, "timestamp": 1_700_000_000_000, "value": "early"}
    ]
    assert lines(run("get", "windows", "ada", "--json")[1])[0]["start"] == 20
    assert run("get", "counts", "nobody") == (0, "no rows\n")


@pytest.mark.usefixtures("home")
def test_range_shows_rows_in_order_and_at_most_the_limit() -> None:
    assert [row["key"] for row in lines(run("range", "counts", "--json")[1])] == ["ada", "bob", "cy"]
    assert [row["key"] for row in lines(run("range", "counts", "--from", "b", "--to", "c", "--json")[1])] == [
        "bob"
    ]
    assert len(lines(run("range", "counts", "--limit", "2", "--json")[1])) == 2


@pytest.mark.usefixtures("home")
def test_check_takes_what_came_since_into_account() -> None:
    code, text = run("check", "--json")
    assert code == 0
    checked = {row["store"]: (row["equal"], row["rows"]) for row in json.loads(text)["checked"]}
    assert checked == {"counts": (True, 2), "seen": (True, 1), "windows": (True, 1)}
    assert run("check", "counts")[1].strip().endswith("equal")


def test_check_finds_a_row_that_the_changelog_does_not_have(home: Path) -> None:
    environment = Environment(home / "0", [*COUNTS.databases, *SEEN.databases, *WINDOWS.databases])
    metadata = environment.metadata()
    assert metadata is not None
    LmdbStore(environment, COUNTS.name).apply([(b"ghost", b"\x80" + b"\x00" * 7)])
    environment.commit(metadata)
    environment.close()
    code, text = run("check", "counts", "--json")
    assert code == 1
    [result] = json.loads(text)["checked"]
    assert (result["equal"], result["differing_keys"]) == (False, 1)
    assert result["differences"][0]["key"] == "ghost"
    assert "ghost" in run("check")[1]


@pytest.mark.usefixtures("home")
def test_an_unknown_store_is_refused_with_the_known_ones() -> None:
    code, text = run("get", "nope", "ada", "--json")
    assert code == 1
    error = json.loads(text)["error"]
    assert error["code"] == "no-such-store"
    assert "counts" in error["hint"]
