"""`tidegate state check`: all damage with task and store, and a repair that is one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from examples.stores.json_folder import JsonFolder
from tests.runtime.fleet import COUNTS, LINES, Fleet
from tests.runtime.slot.test_loud_rebuilds import all_run, remembering, warned
from tests.state.damage import (
    damage,
    damage_metadata,
    damage_row,
    damage_so_that_readers_die,
    flip_end,
    row_in,
)
from tests.state.faults import Failure, failing_at
from tests.waiting import wait_for
from typer.testing import CliRunner

from tidegate import App, Context, Record, stores
from tidegate.cli.main import app as command_line
from tidegate.log.faultpoints import installed
from tidegate.log.partitioner import partition_for
from tidegate.log.sqlite.log import SqliteLog
from tidegate.state.environment import DAMAGED
from tidegate.state.inspect import find_folders

pytestmark = pytest.mark.slow

WORDS = [f"w{number}" for number in range(30)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        yield log


@pytest.fixture
def fleet(log: SqliteLog, tmp_path: Path) -> Fleet:
    """Some words are counted by three tasks, and the app is down."""
    fleet = Fleet(log, tmp_path)
    fleet.connection.send(LINES, "k", " ".join(WORDS))
    fleet.catch_up()
    return fleet


def folders(fleet: Fleet, store: str = "counts") -> dict[int, Path]:
    """Where the tasks with the store keep it, by partition."""
    found = find_folders(fleet.folder / "state")
    return {one.metadata.task.partition: one.folder for one in found if store in one.metadata.stores}


def words_of(partition: int) -> list[bytes]:
    return [word.encode() for word in WORDS if partition_for(word.encode(), 3) == partition]


def arguments(fleet: Fleet, *more: str) -> list[str]:
    place = ["--log", f"sqlite:///{fleet.folder}/log.db", "--state-dir", str(fleet.folder / "state")]
    return ["state", "check", *place, *more]


def check(fleet: Fleet, *more: str, code: int) -> Any:
    result = CliRunner().invoke(command_line, arguments(fleet, "--json", *more))
    assert result.exit_code == code, result.output
    return json.loads(result.output)


def text(fleet: Fleet, *more: str) -> str:
    return CliRunner().invoke(command_line, arguments(fleet, *more)).output


def equal(found: Any) -> set[tuple[str, str]]:
    return {(one["task"], one["store"]) for one in found["checked"] if one["equal"]}


def goes_on(fleet: Fleet, times: int) -> None:
    """The app starts, and counts on from what it had."""
    fleet.connection.send(LINES, "k", " ".join(WORDS))
    fleet.catch_up()
    assert fleet.counts() == dict.fromkeys(WORDS, times)


def test_all_damage_is_listed_with_task_and_store_and_repaired(fleet: Fleet) -> None:
    where = folders(fleet)
    for word in words_of(0)[:2]:
        damage_row(where[0], "counts", word)
    damage_row(where[1], "counts", words_of(1)[0])
    damage_metadata(where[2])
    names = {number: f"{path.parent.parent.name}/{path.parent.name}" for number, path in where.items()}
    found = check(fleet, code=1)
    assert [(one["task"], one["store"]) for one in found["damaged"]] == [
        (names[0], "counts"),
        (names[1], "counts"),
        (names[2], None),
    ]
    assert found["damaged"][0]["what"] == f"2 of {len(words_of(0))} rows do not match their checksum"
    assert "metadata" in found["damaged"][2]["what"]
    assert found["checked"] == []
    shown = text(fleet)
    assert f"{names[0]}  counts  damaged: 2 of" in shown
    assert f"{names[2]}  of app wordcount  not recognised: the state's metadata cannot be read" in shown
    assert "tidegate state check --repair" in shown

    repaired = check(fleet, "--repair", code=0)["repaired"]
    assert [(one["task"], one["outcome"]) for one in repaired] == [
        (names[number], "rebuilt") for number in range(3)
    ]
    sound = check(fleet, code=0)
    assert sound["damaged"] == []
    assert equal(sound) == {(name, "counts") for name in names.values()}
    goes_on(fleet, 2)
    assert warned(fleet, "store-rebuilt") == [], "the app found nothing left to rebuild"


def test_damaged_metadata_alone_is_an_error(fleet: Fleet) -> None:
    damage_metadata(folders(fleet)[0])
    assert check(fleet, code=1)["damaged"][0]["store"] is None
    assert check(fleet, "counts", code=1)["damaged"], "also where one store is asked for"
    assert "not recognised" in text(fleet, "counts")


def test_metadata_that_cannot_be_found_is_an_error_too(fleet: Fleet) -> None:
    """The name of its database is damaged: that looked like a folder with nothing in it."""
    for path in folders(fleet).values():
        damage(path, b":meta", b":mexa")
    found = check(fleet, code=1)
    assert [one["store"] for one in found["damaged"]] == [None] * 3
    assert text(fleet).count("not recognised: there are rows, but the state's metadata is missing") == 3


def test_the_other_commands_answer_from_what_can_be_read_and_report_what_cannot(fleet: Fleet) -> None:
    damage_metadata(folders(fleet)[0])
    place = ["--state-dir", str(fleet.folder / "state")]

    def run(*words: str) -> tuple[int, list[Any]]:
        result = CliRunner().invoke(command_line, ["state", *words, *place, "--json"])
        return result.exit_code, [json.loads(line) for line in result.output.splitlines()]

    code, [listed] = run("ls")
    assert (code, [one["code"] for one in listed["unreadable"]]) == (1, ["bad-metadata"])
    assert len([one for one in listed["stores"] if one["store"] == "counts"]) == 2
    code, [row, error] = run("get", "counts", words_of(1)[0].decode())
    assert (code, row["value"], error["error"]["code"]) == (1, 1, "bad-metadata")
    assert "state check --repair" in error["error"]["hint"]
    code, lines = run("range", "counts")
    assert (code, len(lines)) == (1, len(words_of(1)) + len(words_of(2)) + 1)


def test_a_folder_with_unknown_stores_is_discarded_and_rebuilt_by_the_app(fleet: Fleet) -> None:
    for path in folders(fleet).values():
        damage_metadata(path)
    outcomes = {one["outcome"] for one in check(fleet, "--repair", code=0)["repaired"]}
    assert outcomes == {"discarded"}
    assert check(fleet, code=0)["damaged"] == []
    goes_on(fleet, 2)


def test_a_folder_that_ends_every_process_that_reads_it_is_repaired(fleet: Fleet) -> None:
    where = folders(fleet)
    damage_so_that_readers_die(where[1], words_of(1)[0])
    [damaged] = check(fleet, code=1)["damaged"]
    assert "crashes the process" in damaged["what"]
    assert [one["outcome"] for one in check(fleet, "--repair", code=0)["repaired"]] == ["rebuilt"]
    assert len(equal(check(fleet, code=0))) == 3
    goes_on(fleet, 2)


@pytest.mark.parametrize("step", ["repair.1", "repair.2", "repair.3", "restore.4", "repair.4"])
def test_a_repair_that_is_cut_off_leaves_a_folder_that_nobody_believes(fleet: Fleet, step: str) -> None:
    where = folders(fleet)
    damage_row(where[1], "counts", words_of(1)[0])
    with installed(failing_at(step)):
        result = CliRunner().invoke(command_line, arguments(fleet, "--repair"))
    assert isinstance(result.exception, Failure)
    goes_on(fleet, 2)
    assert len(equal(check(fleet, code=0))) == 3


def test_beside_a_running_app_the_task_that_holds_the_folder_rebuilds_it(fleet: Fleet) -> None:
    folder = folders(fleet)[1]
    row = row_in(folder, "counts", words_of(1)[0])
    with fleet.running() as (driver, _):
        wait_for(lambda: all_run(driver))
        flip_end(folder, row)
        command = [sys.executable, "-m", "tidegate", *arguments(fleet, "--repair", "--json")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        [repaired] = json.loads(ran.stdout)["repaired"]
        assert (repaired["outcome"], repaired["message"]) == ("rebuilt", "by the running task that holds it")
        fleet.connection.send(LINES, "k", " ".join(WORDS))
        wait_for(lambda: fleet.counts() == dict.fromkeys(WORDS, 2))
    assert len(warned(fleet, "store-rebuilt")) == 1
    assert len(equal(check(fleet, code=0))) == 3


def test_a_holder_that_does_not_answer_is_named_and_left_alone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A time-out that the test waits for.
    monkeypatch.setattr("tidegate.cli.state_check.REBUILD_SECONDS", 0.3)
    where = folders(fleet)
    damage_row(where[1], "counts", words_of(1)[0])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(where[1].with_name(f"{where[1].name}.lock"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        [repaired] = check(fleet, "--repair", code=1)["repaired"]
        assert repaired["outcome"] == "asked"
        assert "a running task holds it" in repaired["message"]
        assert (where[1] / DAMAGED).exists(), "it is rebuilt when it is opened next"
    finally:
        holder.kill()
        holder.communicate()
    goes_on(fleet, 2)


HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_store_without_changelog_does_not_pass_for_complete_after_a_repair(
    log: SqliteLog, tmp_path: Path
) -> None:
    fleet = Fleet(log, tmp_path, remembering("empty"))
    fleet.connection.send(LINES, "k", "a")
    fleet.catch_up(slots=1)
    folder = folders(fleet, "seen")[partition_for(b"k", 3)]
    damage_row(folder, "seen", b"a")
    assert [one["outcome"] for one in check(fleet, "--repair", code=0)["repaired"]] == ["rebuilt"]
    fleet.catch_up(slots=1)
    assert len(warned(fleet, "store-emptied")) == 1, "its rows are gone, and the task says so"


def many_kinds() -> App:
    windows = stores.window("windows", int, size=1000, retention=5000)
    memory = stores.in_memory("memory", int)
    own = stores.key_value("own", int).backed_by(JsonFolder)

    def keep(record: Record[str, str], ctx: Context[str, int]) -> None:
        kept = ctx.store(windows)
        count = (kept.get(record.value, 0) or 0) + 1
        kept.put(record.value, 0, count)
        ctx.store(memory).put(record.value, count)
        assert (ctx.store(own).get(record.value) or 0) == count - 1
        ctx.store(own).put(record.value, count)
        ctx.forward(Record(record.value, count, record.timestamp))

    app = App("kinds")
    app.stream(LINES).process("keep", keep, stores=[windows, memory, own]).to(COUNTS)
    return app


def test_windows_are_rebuilt_with_their_index_and_what_lies_elsewhere_is_no_damage(
    log: SqliteLog, tmp_path: Path
) -> None:
    fleet = Fleet(log, tmp_path, many_kinds)
    fleet.connection.send(LINES, "k", "a", timestamp=100)
    fleet.catch_up(slots=1)
    assert {store for _, store in equal(check(fleet, code=0))} == {"windows"}
    folder = folders(fleet, "windows")[partition_for(b"k", 3)]
    (folder / DAMAGED).touch()
    assert [one["outcome"] for one in check(fleet, "--repair", code=0)["repaired"]] == ["rebuilt"]
    assert check(fleet, code=0)["damaged"] == [], "the index by end time fits"
    fleet.connection.send(LINES, "k", "a", timestamp=200)
    fleet.catch_up(slots=1)
    assert fleet.counts() == {"a": 2}


def test_state_of_another_log_is_skipped_and_never_repaired(fleet: Fleet, tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "other.db")):
        place = ["--log", f"sqlite:///{tmp_path}/other.db", "--state-dir", str(fleet.folder / "state")]
        result = CliRunner().invoke(command_line, ["state", "check", *place, "--repair", "--json"])
    found = json.loads(result.output)
    assert (result.exit_code, found["repaired"]) == (0, [])
    assert {one["why"] for one in found["skipped"]} == {"it was built from another log"}


def test_a_changelog_that_is_gone_stops_no_other_check(fleet: Fleet) -> None:
    fleet.log.delete("wordcount-counts-changelog")
    found = check(fleet, code=1)
    assert len(found["damaged"]) == 3
    assert check(fleet, "--repair", code=1)["repaired"] == [], "a rebuild would not help"


def test_no_state_is_no_error(log: SqliteLog, tmp_path: Path) -> None:
    fleet = Fleet(log, tmp_path)
    assert check(fleet, code=0) == {"checked": [], "damaged": [], "skipped": [], "repaired": []}
    assert "no state on this host yet" in text(fleet)
