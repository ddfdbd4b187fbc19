"""`tidegate run` as a process of its own: what a user sees of it when a worker is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import HANG_SECONDS, wait_for
from typer.testing import CliRunner

from tidegate.cli.main import app

APP = """
from tidegate import App, TableTopic, Topic

LINES, COUNTS = Topic("lines", str), TableTopic("counts", int)
app = App("shop")


def checked(line: str) -> str:
    if line == "bad":
        raise ValueError("a bad line")
    return line


app.stream(LINES, on_error="dead-letter").map(checked).count("seen").to(COUNTS)
"""


def tidegate(folder: Path, *arguments: str) -> Any:
    """A command that prints JSON, in this process: it is repeated while something is waited for."""
    with chdir(folder):
        done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done
    return json.loads(done.stdout)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`tidegate run`, and the lines that it has printed so far on stderr."""
    lines: list[str] = []
    command = [sys.executable, "-m", "tidegate", "run", *arguments]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        reader = threading.Thread(target=lines.extend, args=(process.stderr,))
        reader.start()
        try:
            yield process, lines
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(HANG_SECONDS)
            reader.join()


def java_of(pid: int) -> int:
    """The JVM that a process started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [jvm] = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"]
    return jvm


def printed(lines: list[str], pattern: str) -> re.Match[str]:
    """Wait for a line."""
    wait_for(lambda: any(re.search(pattern, line) for line in lines))
    return next(found for line in lines if (found := re.search(pattern, line)))


@pytest.mark.slow
def test_a_killed_worker_and_dead_letters_are_lines_and_status_shows_both(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    tidegate(tmp_path, "topics", "create", "lines", "--partitions", "1")
    with running(tmp_path, "shop:app", "--slots", "1") as (process, lines):
        first = printed(lines, r"shop: slot 0: attempt 1 runs on \S+, process (\d+)")
        tidegate(tmp_path, "topics", "send", "lines", "ada", "bad")
        printed(lines, r"shop: slot 0: 1 record went to shop-dead-letters, 1 since its job began")
        wait_for(lambda: tidegate(tmp_path, "status", "shop")["state"] == "running", every=0.5)
        os.kill(int(first[1]), signal.SIGKILL)
        printed(
            lines,
            r"shop: slot 0: attempt 1 ended without a report \(its worker was killed.*\[slot-lost\]",
        )
        printed(lines, r"shop: slot 0: attempt 2 runs on")
        wait_for(lambda: tidegate(tmp_path, "status", "shop")["state"] == "running", every=0.5)
        found = tidegate(tmp_path, "status", "shop")
        assert (found["restarts"], found["last_failure"]["code"]) == (1, "slot-lost")
        assert found["dead_letters"]["records"] == 1
        jvm = java_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 0
        assert not Path(f"/proc/{jvm}").exists(), "Spark ends before the command does"
    assert tidegate(tmp_path, "status", "shop")["state"] == "stopped"
    assert len([line for line in lines if "[slot-lost]" in line]) == 1, lines
