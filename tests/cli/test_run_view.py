"""The live view of `tidegate run`, on a real pseudo-terminal and off one."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

from tests.waiting import HANG_SECONDS

SHOW = """
from tidegate.cli.run_screen import RunScreen
from tidegate.runtime.topics.status import Landing, Numbers, Warned
from tidegate.runtime.driver.slot_overview import SlotOverview

view = SlotOverview()
with RunScreen("orders", json=False) as shown:
    shown.show("starting", view)
    for slot, host in enumerate(("worker-1", "worker-2")):
        view.add(Landing(1, slot, 1, host, 1, "m", {}))
    numbers = dict(at=0, records=45_678, per_second=1234.0, lag=91_011, skipped=3)
    view.add(Numbers(1, 0, running=3, restoring=0, restored=0, to_restore=0, **numbers))
    view.add(Numbers(1, 1, running=1, restoring=2, restored=250, to_restore=1000, **numbers))
    shown.show("running", view)
    view.last_report[0] -= 6.2
    shown.show("running", view)
    view.add(Warned(1, 0, 1, "over-budget", "state needs more", "give it more room"))
    shown.show("running", view)
shown.ended("stopped", view)
"""


def on_a_terminal() -> str:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen([sys.executable, "-c", SHOW], stderr=theirs, stdout=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                some = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not some:
                break
            said += some
        assert process.wait(HANG_SECONDS) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())


def test_a_terminal_shows_slots_with_rates_lag_and_restores() -> None:
    said = on_a_terminal()
    for words in ("worker-1", "worker-2", "3/3", "1/3", "1,234", "45,678", "91,011", "running"):
        assert words in said
    assert "silent 6 s" in said
    assert "━" in said, "a bar for what is restored"
    assert "[over-budget] state needs more  Do: give it more room" in said
    assert "slot 0: attempt 1 runs on worker-1, process 1" in said
    assert said.strip().endswith("orders: stopped; 0 records, 0 restarts of slots")


def test_without_a_terminal_each_change_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "orders: starting, 0 slots",
        "orders: slot 0: attempt 1 runs on worker-1, process 1",
        "orders: slot 1: attempt 1 runs on worker-2, process 1",
        "orders: slot 0: 3 records were skipped, 3 since its job began",
        "orders: slot 1: 3 records were skipped, 3 since its job began",
        "orders: restoring: 250 of 1,000 changelog records",
        "orders: running, 2 slots",
        "orders: [over-budget] state needs more  Do: give it more room",
        "orders: stopped; 0 records, 0 restarts of slots",
    ]
