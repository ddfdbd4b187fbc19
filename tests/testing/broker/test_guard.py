"""A guarded process ends with us, and its guard ends with it."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from tests.waiting import wait_for

from tidegate.testing.broker.guard import GuardedProcess
from tidegate.testing.broker.program import Program

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def ended(pid: int) -> bool:
    """Gone, or only waiting to be reaped by the process that inherits it."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_it_is_killed_when_its_parent_is() -> None:
    program = (
        "import subprocess, sys, time; from tidegate.testing.broker.guard import GuardedProcess\n"
        f"held = GuardedProcess({SLEEP}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(held.pid, held._guard.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert not any(ended(pid) for pid in pids)
        parent.kill()
    for _ in range(100):
        if all(ended(pid) for pid in pids):
            break
        time.sleep(0.05)
    assert all(ended(pid) for pid in pids)


def test_a_signal_that_ends_us_while_it_is_started_leaves_nothing() -> None:
    program = (
        "import signal, subprocess, sys; from tidegate.testing.broker.guard import GuardedProcess\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "command = ['sh', '-c', 'echo $$; kill -TERM $PPID; exec sleep 60']\n"
        "held = GuardedProcess(command, stdout=sys.stdout.fileno(), stderr=subprocess.DEVNULL)\n"
        "signal.pause()"
    )
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout
            pid = int(parent.stdout.readline())
            assert parent.wait(30) == 3
        wait_for(partial(ended, pid))


def test_the_guard_ends_when_the_process_does() -> None:
    held = GuardedProcess([sys.executable, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert held.wait(10) == 0
    assert ended(held._guard.pid)
    held.signal(9)
    assert held.wait() == 0


def test_a_program_reports_its_events_and_its_end(tmp_path: Path) -> None:
    code = "import time; print('{\"event\": 1}\\n{\"half', end='', flush=True); time.sleep(60)"
    program = Program("teller", [sys.executable, "-c", code], tmp_path)
    assert program.wait_for(lambda event: event["event"] == 1) == {"event": 1}
    assert program.running
    assert program.stop() == -15
    assert program.events() == [{"event": 1}]
