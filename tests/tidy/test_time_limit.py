"""A test that hangs fails with the stacks of all threads, leaves no process, and the next ones run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 3
"""Longer than a process waits for a core on a busy machine: a limit that strikes before the test or its
teardown has begun ends the fixtures instead, or leaves out the teardown."""

HOOKS = """
from tests.time_limit import pytest_collection_modifyitems, pytest_runtest_teardown, pytest_timeout_set_timer
"""

STORY = """
import os, subprocess, sys, threading, time
from pathlib import Path
import pytest
from hypothesis import given, strategies

PARENT = '''
import subprocess, sys
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(sleeper, start_new_session=True).pid, flush=True)
if sys.argv[1] == "stay":
    import time; time.sleep(600)
'''

def for_ever():
    while True:
        time.sleep(600)

def test_hangs_beside_a_thread():
    threading.Thread(target=for_ever, name="the-other-one", daemon=True).start()
    for_ever()

@given(strategies.integers())
def test_hangs_in_hypothesis(number):
    for_ever()

def test_hangs_in_spite_of_its_own_handler():
    try:
        for_ever()
    except Exception:
        for_ever()

@pytest.mark.timeout(6)
def test_hangs_with_processes():
    with Path("pids").open("w") as pids:
        for end in ("leave", "stay"):
            child = subprocess.Popen([sys.executable, "-c", PARENT, end], stdout=subprocess.PIPE, text=True)
            pids.write(f"{child.pid} {child.stdout.readline()}")
            if end == "leave":
                child.wait()
    child.wait()

@pytest.fixture
def kept():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        Path("kept").write_text(str(process.poll()))
        process.kill()

def test_hangs_with_a_process_of_a_fixture(kept):
    for_ever()

@pytest.fixture
def stuck():
    for_ever()

def test_of_a_fixture_that_hangs(stuck):
    pass

@pytest.fixture
def stuck_at_its_end():
    yield
    for_ever()

def test_of_a_teardown_that_hangs(stuck_at_its_end):
    assert False

def test_comes_after():
    pass
"""


def run_story(folder: Path, story: str, *options: str, hang: float = 120) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(HOOKS)
    (folder / "test_story.py").write_text(story)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_story.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=hang,
    )


def is_alive(process: int) -> bool:
    """A zombie, which has not been reaped, is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_test_that_hangs_fails_with_all_stacks_and_the_suite_goes_on(tmp_path: Path) -> None:
    done = run_story(tmp_path, STORY, f"--timeout={LIMIT_SECONDS}", "-q", "-rA")
    assert re.search(r"6 failed, 1 passed, 2 errors|7 failed, 1 passed, 1 error", done.stdout), done.stdout
    assert "PASSED test_story.py::test_comes_after" in done.stdout
    assert "ERROR test_story.py::test_of_a_teardown_that_hangs" in done.stdout
    first = done.stdout.partition("test_hangs_beside_a_thread")[2].partition("test_hangs_in_hypothesis")[0]
    assert re.search(r"stack of MainThread .*in for_ever", first, re.DOTALL)
    assert re.search(r"stack of the-other-one .*in for_ever", first, re.DOTALL)
    assert f"took longer than {LIMIT_SECONDS} s" in done.stdout
    assert (tmp_path / "kept").read_text() == "None", "what a fixture started is left to it"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4
    wait_for(lambda: not any(map(is_alive, pids)), 10)


IN_A_WORKER = """
import threading

def test_hangs():
    threading.Event().wait()

def test_comes_after():
    pass
"""


@pytest.mark.slow
def test_in_a_process_of_a_shared_run_it_is_the_same(tmp_path: Path) -> None:
    done = run_story(tmp_path, IN_A_WORKER, f"--timeout={LIMIT_SECONDS}", "-q", "-n", "1")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert f"took longer than {LIMIT_SECONDS} s" in done.stdout
    assert re.search(r"stack of MainThread .*in test_hangs", done.stderr, re.DOTALL), done.stderr


BY_MARK = """
import pytest

@pytest.mark.slow
def test_slow(request):
    print("limit", request.node.limit_seconds)

@pytest.mark.slow
@pytest.mark.timeout(7)
def test_with_its_own(request):
    print("limit", request.node.limit_seconds)

def test_ordinary(request):
    print("limit", request.node.limit_seconds)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("soak", "given", "limits"),
    [("", "", [600, 7, 240]), ("1", "", [3600, 7, 3600]), ("", "30", [30, 7, 30])],
    ids=["ordinary", "soak", "given by hand"],
)
def test_slow_tests_and_soaks_have_more_time(
    soak: str, given: str, limits: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_SOAK", soak)
    monkeypatch.delenv("PYTEST_TIMEOUT", raising=False)
    options = [f"--timeout={given}"] if given else ["-o", "timeout=240"]
    done = run_story(tmp_path, BY_MARK, "-s", "-q", *options)
    assert [float(limit) for limit in re.findall(r"limit ([\d.]+)", done.stdout)] == limits, done.stdout
