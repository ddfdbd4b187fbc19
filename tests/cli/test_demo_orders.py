"""`tidegate demo` as people and machines run it: a process with processes of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.cli.conftest import Run
from tests.cli.test_process import WAIT, start
from tests.dashboard.browser import launched, tab
from tests.waiting import wait_for

import tidegate
from tidegate import TidegateError, connect
from tidegate.cli.demo import folder as demo_folder
from tidegate.cli.demo.processes import Child
from tidegate.cli.demo.source import ADMITTED

ROOT = Path(__file__).parents[2]


def processes_in(folder: Path) -> list[int]:
    """Those whose working folder it is: Spark's too."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_without_a_terminal_it_plays_its_story_checks_the_sums_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    with start(
        tmp_path, "demo", "--json", "--seconds", "3", "--folder", "here", TIDEGATE_LOG="nothing"
    ) as demo:
        out, err = demo.communicate(timeout=WAIT)
    assert (demo.returncode, err) == (0, b""), (out, err)
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    events = [one["event"] for one in lines]
    story = ["serving", "flowing", "paused", "stood", "resumed", "checked", "ending"]
    story += ["changing", "upgraded", "ended", "kept"]
    assert [event for event in dict.fromkeys(events) if event in story] == story
    reported = {one["event"]: one for one in lines}
    assert reported["stood"]["orders"] == reported["paused"]["first_waiting"] - 1
    assert reported["stood"]["waiting"] > 0
    assert reported["stood"]["others"] > 0
    ended = reported["ended"]
    assert ended["sent"] == ended["passed"] == ended["outputs"] == reported["checked"]["orders"] > 100
    assert (ended["out_of_turn"], ended["held"], len(ended["customers"])) == (0, 0, 20)
    upgraded = reported["upgraded"]
    assert 0 < upgraded["published"] == upgraded["differing"] <= 3
    held = [one["held"] for one in lines if one["event"] == "numbers"]
    assert max(held) > 0
    wait_for(lambda: processes_in(folder) == [])
    with connect(folder=folder) as connection:
        assert sum(1 for _ in connection.read(ADMITTED)) == ended["passed"]


@pytest.mark.slow
def test_on_a_terminal_it_runs_until_ctrl_c_and_takes_its_processes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    with OnTerminal(tmp_path, "demo", "--folder", "here") as terminal:
        terminal.read_until(lambda text: "pause orders-gate ada" in text)
        terminal.read_until(lambda text: re.search(r"[1-9][0-9,]* orders passed", text) is not None)
        assert len(processes_in(folder)) >= 3
        look_at_the_dashboard(terminal)
        terminal.read_until(lambda text: re.search(r"kill -9 [0-9]+ ", text) is not None)
        worker = int(re.findall(r"kill -9 ([0-9]+) ", terminal.text)[-1])
        assert worker in processes_in(folder)
        os.kill(worker, signal.SIGKILL)
        terminal.read_until(lambda text: "1 restarted; every order still in turn" in text)
        os.write(terminal.screen, b"\x03")
        terminal.read_until(lambda text: "Everything is kept" in text)
        assert terminal.process.wait(WAIT) == 0
    assert processes_in(folder) == []
    assert "0 out of turn" in terminal.text
    assert "totals are their sums" in terminal.text
    assert "orders: stopped" in (folder / "run.txt").read_text()


def look_at_the_dashboard(terminal: OnTerminal) -> None:
    """The address on the screen opens the overview, which is live: orders pass the gate."""
    if shutil.which("chromium") is None:
        return
    [url] = set(re.findall(r"dashboard:? +(http://127\.0\.0\.1:[0-9]+)/ui/", terminal.text))
    with (
        sync_playwright() as playwright,
        closing(launched(playwright)) as browser,
        tab(browser, url) as opened,
    ):
        page = opened.live()
        app = page.locator("[data-app=orders]")
        expect(app.get_by_role("link", name="orders-gate")).to_be_visible()
        expect(app.get_by_text(re.compile(r"^[1-9][0-9.,]*/s$")).first).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_starts_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "demo", "--folder", "here") as demo:
        assert demo.stdout is not None
        while b"starting the HTTP server" not in demo.stdout.readline():
            assert demo.poll() is None
        wait_for(lambda: len(processes_in(tmp_path / "here")) >= 2)
        demo.send_signal(number)
        _, err = demo.communicate(timeout=WAIT)
    assert (demo.returncode, err) == (128 + number, b"")
    wait_for(lambda: processes_in(tmp_path / "here") == [])


@pytest.mark.slow
def test_an_app_that_cannot_start_is_reported_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    with start(tmp_path, "demo", "--folder", "here", PATH=str(tmp_path / "bin"), JAVA_HOME="") as demo:
        out, err = demo.communicate(timeout=WAIT)
    assert demo.returncode == 1, out
    assert b"[demo-failed] tidegate run ended with 1: " in err
    assert b"[no-java]" in err
    assert processes_in(tmp_path / "here") == []


@pytest.mark.slow
def test_a_process_that_dies_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    with Child(tmp_path, "topics", "describe", "nothing", "--log", "sqlite:///missing.db") as child:
        with pytest.raises(TidegateError, match=r"tidegate topics ended with 1: \[.*missing\.db"):
            while True:
                child.check()
        child.stop()


def test_a_folder_in_use_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "tidegate.toml").write_text("")
    assert "[folder-in-use]" in run("demo", "--folder", "here", code=1).err
    assert [file.name for file in (tmp_path / "here").iterdir()] == ["tidegate.toml"]


def test_the_folder_has_the_example_and_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_LOG", "sqlite://")
    config = demo_folder.make_folder(tmp_path / "new" / "here")
    assert (config.app, config.log, config.folder) == (
        "orders:app",
        "sqlite:///.tidegate/log.db",
        tmp_path / "new" / "here",
    )
    example = (ROOT / "examples" / "orders" / "orders.py").read_text()
    assert (tmp_path / "new" / "here" / "orders.py").read_text() == example
    assert demo_folder.make_folder(tmp_path / "other", "kafka://127.0.0.1:1").log == "kafka://127.0.0.1:1"


def test_the_packaged_example_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "site" / "tidegate"
    (package / "examples").mkdir(parents=True)
    # An installed package, as far as the search for the example goes.
    monkeypatch.setattr(tidegate, "__file__", str(package / "__init__.py"))
    with pytest.raises(TidegateError, match="neither in the package nor beside it"):
        demo_folder.example()
    (package / "examples" / "orders.py").write_text("")
    assert demo_folder.example() == package / "examples" / "orders.py"


@pytest.mark.slow
def test_a_wheel_brings_the_example(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=WAIT)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        example = (ROOT / "examples" / "orders" / "orders.py").read_bytes()
        assert files.read("tidegate/examples/orders.py") == example


class OnTerminal:
    """A command that has a terminal of 100 columns and 30 lines."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate", *arguments],
            cwd=folder,
            env={**clean, "TERM": "xterm", "NO_COLOR": "1"},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - its terminal is set
            start_new_session=True,
        )
        os.close(inside)
        self.text = ""

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.screen)

    def read_until(self, true: Callable[[str], bool]) -> None:
        """Reads what it writes, until that is true of all of it."""
        deadline = time.monotonic() + WAIT
        while not true(self.text):
            assert time.monotonic() < deadline, self.text
            try:
                reported = os.read(self.screen, 65_536)
            except OSError:  # the terminal's other end is closed
                reported = b""
            assert reported, self.text
            self.text += reported.decode(errors="replace")
