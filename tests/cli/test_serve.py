"""`tidegate serve` and `tidegate tokens`."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from tests.cli.conftest import Run
from tests.gate.app import gated
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.clock import SystemClock
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare


def test_tokens_are_made_listed_and_removed(run: Run, tmp_path: Path) -> None:
    made = run("tokens", "add", "ada", "--scope", "operate", "--json").json
    assert made["token"].startswith("tg_")
    file = tmp_path / ".tidegate" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = run("tokens", "add", "bob").out.strip()
    assert shown.startswith("tg_")
    listed = run("tokens", "list", "--json")
    assert listed.json == {"tokens": [{"name": "ada", "scope": "operate"}, {"name": "bob", "scope": "read"}]}
    assert made["token"] not in run("tokens", "list").out
    run("tokens", "remove", "ada")
    assert run("tokens", "remove", "ada", "--json", code=1).json["error"]["code"] == "no-such-token"
    assert run("tokens", "add", "x", "--scope", "root", "--json", code=1).json["error"]["code"] == "bad-scope"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--host", "0.0.0.0"), "needs-tokens"),  # noqa: S104 - refused
        (("--host", "0.0.0.0", "--tokens", "none.json"), "no-tokens"),  # noqa: S104 - refused
        (("--host", "not-an-address"), "needs-tokens"),
        (("--log", "sqlite:///none/log.db"), "no-log"),
    ],
)
def test_what_cannot_be_served_is_refused(run: Run, arguments: tuple[str, ...], code: str) -> None:
    shown = run("serve", "--port", "0", *arguments, "--json", code=1).json["error"]
    assert shown["code"] == code


@pytest.mark.slow
def test_a_server_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """Two at once on one log; one is killed, and what it left behind is gone with the next start."""
    home = tmp_path / ".tidegate"
    home.mkdir()
    with closing(SqliteLog(home / "log.db")) as log:
        prepare(gated().build(), log, SystemClock(), partitions=2)
    first, url = _started(tmp_path)
    assert "<title>tidegate</title>" in httpx2.get(f"{url}/ui/", timeout=30).text
    second, other = _started(tmp_path)
    for one in (url, other):
        assert httpx2.get(f"{one}/gates", timeout=30).json()["gates"][0]["gate"] == "door"
    assert len(list(home.glob("replicas-*"))) == 2
    os.kill(first.pid, signal.SIGKILL)
    first.wait(HANG_SECONDS)
    third, _ = _started(tmp_path)
    wait_for(lambda: len(list(home.glob("replicas-*"))) == 2)
    for process, number in ((second, signal.SIGTERM), (third, signal.SIGINT)):
        os.kill(process.pid, number)
        assert process.wait(HANG_SECONDS) == 0
    assert list(home.glob("replicas-*")) == []
    for process in (first, second, third):
        assert process.stdout is not None
        process.stdout.close()


def _started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "tidegate", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = json.loads(process.stdout.readline())
    assert printed["dashboard"] == f"{printed['url']}/ui/"
    return process, printed["url"]
