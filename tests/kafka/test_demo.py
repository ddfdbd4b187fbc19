"""`tidegate demo --kafka` brings its own broker, and removes it when it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.kafka.test_broker import gone, within

DEMO = [sys.executable, "-m", "tidegate", "demo", "--kafka"]
WAIT = 300


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders of the demo go: nothing may be left there."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)  # so that TMPDIR is read again
    yield folder
    assert within(60, lambda: list(folder.iterdir()) == [])


def test_ctrl_c_while_the_broker_starts_leaves_nothing_behind(scratch: Path) -> None:
    with subprocess.Popen(
        DEMO, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        while "starting a broker" not in (lines[-1] if lines else ""):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        assert within(60, lambda: brokers_in(scratch) != [])
        pids = brokers_in(scratch)
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, "")
    # One that was interrupted before it was known is ended by its guard, shortly after the demo.
    assert within(60, lambda: all(gone(pid) for pid in pids))


def test_what_is_missing_is_named_with_what_to_install(tmp_path: Path) -> None:
    """In a process of its own, with a PATH that has Java and no Maven, then neither."""
    tools = tmp_path / "bin"
    tools.mkdir()
    without = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ = without | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tools)}

    def run_demo() -> str:
        ran = subprocess.run(DEMO, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 1
        return ran.stderr

    assert "[no-java]" in run_demo()
    (tools / "java").symlink_to(str(shutil.which("java")))
    error = run_demo()
    assert "downloading the broker with Maven, only once" in error
    assert "[no-maven]" in error
    assert "apt-get install maven" in error


def test_a_folder_with_kafka_is_refused(run: Run) -> None:  # noqa: F811
    assert "[bad-option]" in run("demo", "--kafka", "--folder", "here", code=1).err


@pytest.mark.soak(only="takes a minute")
def test_orders_and_a_gate_on_a_broker_of_its_own(scratch: Path) -> None:
    """The whole demo as a process: the order of a paused customer is kept on Kafka too."""
    ran = subprocess.run(
        [sys.executable, "-m", "tidegate", "demo", "--kafka", "--json", "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert ran.returncode == 0, ran
    events = {one["event"]: one for one in map(json.loads, ran.stdout.splitlines())}
    assert re.fullmatch(r"kafka://127\.0\.0\.1:\d+", events["starting"]["log"])
    assert events["stood"]["waiting"] > 0
    assert events["checked"]["orders"] == events["ended"]["passed"] > 100
    assert "kept" not in events


def brokers_in(folder: Path) -> list[int]:
    """Processes whose command names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in command and b"kafka.Kafka" in command:
                found.append(int(entry.name))
    return found
