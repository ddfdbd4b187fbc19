"""The file of tokens: what is bound to a token, many who change the file at once, and a kill in a write."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
from tests.gate.app import gated
from tests.server.conftest import Client, Serve

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.errors import ConfigError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import live
from tidegate.server.tokens import Scope, Tokens, add_token, remove_token

CHANGES = 40
LINES = 100
"""What a quiet stream that does not end sends in some seconds."""
CHANGING = """
import sys
from pathlib import Path
from tidegate.server.tokens import Scope, add_token, remove_token
file, who, changes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(changes):
    add_token(file, f"{who}-{number}", Scope.READ)
    if number % 2:
        remove_token(file, f"{who}-{number}")
"""
KILLED = """
import os, signal, sys
from pathlib import Path
from tidegate.log import faultpoints
from tidegate.server.tokens import Scope, add_token
def kill(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
with faultpoints.installed(kill):
    add_token(Path(sys.argv[1]), "late", Scope.READ)
"""


@pytest.fixture
def file(config: Config) -> Path:
    return config.folder / "tokens.json"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def guarded(serve: Serve, log: SqliteLog) -> Client:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    return serve(tokens="tokens.json")


def test_a_new_token_of_the_same_name_keeps_no_stream_and_no_ticket_of_the_old_one_open(
    serve: Serve, log: SqliteLog, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ALLOWED_SECONDS", 0.1)  # how often tokens are looked at
    monkeypatch.setattr(live, "QUIET_SECONDS", 0.1)  # how often a quiet stream writes
    leaked = add_token(file, "alice", Scope.READ)
    client = guarded(serve, log)
    ticket = client.post("/tickets", headers=bearer(leaked)).json()["ticket"]
    with client.stream("GET", "/live?topic=events", headers=bearer(leaked)) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        remove_token(file, "alice")
        fresh = add_token(file, "alice", Scope.READ)
        reported = [line for line in islice(lines, LINES) if line.startswith("data")]
    assert ['"no-token"' in line for line in reported] == [True]
    assert client.get(f"/live?topic=events&ticket={ticket}").status_code == 401
    good = client.post("/tickets", headers=bearer(fresh)).json()["ticket"]
    with client.stream("GET", f"/live?topic=events&ticket={good}") as answer:
        assert answer.status_code == 200


def test_a_new_token_of_the_same_name_gets_no_answer_that_was_kept_for_the_old_one(
    serve: Serve, log: SqliteLog, file: Path
) -> None:
    leaked = add_token(file, "alice", Scope.OPERATE)
    client = guarded(serve, log)
    path, once = "/gates/door/keys/ada/pause", {"Idempotency-Key": "one"}
    first = client.post(path, headers=bearer(leaked) | once, json={"reason": "theirs"})
    again = client.post(path, headers=bearer(leaked) | once, json={"reason": "theirs"})
    assert first.status_code == again.status_code == 200
    assert first.json()["epoch"] == again.json()["epoch"]
    remove_token(file, "alice")
    fresh = add_token(file, "alice", Scope.OPERATE)
    own = client.post(path, headers=bearer(fresh) | once, json={"reason": "mine"})
    assert own.status_code == 200
    assert own.json()["epoch"] != first.json()["epoch"]


def test_processes_that_change_the_file_at_once_undo_nothing_of_each_other(file: Path) -> None:
    add_token(file, "before", Scope.OPERATE)
    with ExitStack() as stack:
        changing = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", CHANGING, str(file), who, str(CHANGES)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for who in ("ada", "bob")
        ]
        for one in changing:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in changing:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        assert [one.wait() for one in changing] == [0, 0]
    kept = {f"{who}-{number}" for who in ("ada", "bob") for number in range(0, CHANGES, 2)}
    assert {entry.name for entry in Tokens(file).entries()} == {"before", *kept}


@pytest.mark.parametrize(
    ("step", "is_there"), [(1, False), (2, False), (3, False), (4, False), (5, False), (6, True)], ids=str
)
def test_a_kill_in_a_write_leaves_the_old_file_or_the_new_one(file: Path, step: int, is_there: bool) -> None:
    token = add_token(file, "early", Scope.OPERATE)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(file), f"tokens.{step}"], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    found = Tokens(file)
    assert [entry.name for entry in found.entries()] == ["early", *(["late"] if is_there else [])]
    assert found.find(token) is not None
    add_token(file, "after", Scope.READ)
    assert "after" in {entry.name for entry in Tokens(file).entries()}
    assert {one.name for one in file.parent.iterdir() if "tokens" in one.name} == {
        "tokens.json",
        ".tokens.json.lock",
    }
    modes = {stat.S_IMODE(one.stat().st_mode) for one in file.parent.iterdir() if "tokens" in one.name}
    assert modes == {0o600}


def test_a_write_is_on_the_disk_before_it_takes_the_place_of_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_token(file, "early", Scope.READ)
    done: list[str] = []
    sync, move = os.fsync, Path.replace

    def synced(handle: int) -> None:
        sync(handle)
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    def moved(draft: Path, target: Path) -> Path:
        done.append("rename")
        return move(draft, target)

    # Only a power cut shows a missing sync: the order of the system calls stands for it.
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", moved)
    add_token(file, "late", Scope.READ)
    assert done == ["file", "rename", "folder"]


def test_a_file_that_is_held_for_long_is_reported_by_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    from tidegate.server import tokens

    monkeypatch.setattr(tokens, "LOCK_SECONDS", 0.2)  # a time-out that the test waits for
    add_token(file, "early", Scope.READ)
    with (file.parent / ".tokens.json.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="tokens-busy"):
            add_token(file, "late", Scope.READ)
        with pytest.raises(ConfigError, match="tokens-busy"):
            remove_token(file, "early")
    assert [entry.name for entry in Tokens(file).entries()] == ["early"]


def test_a_folder_that_cannot_be_used_is_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="no-tokens"):
        add_token(tmp_path / "taken" / "tokens.json", "ada", Scope.READ)
    with pytest.raises(ConfigError, match="no-tokens"):
        remove_token(tmp_path / "none" / "tokens.json", "ada")
    assert not (tmp_path / "none").exists()
