"""Tasks in the browser beside real Spark: a Python worker is killed, and its tasks are restored elsewhere."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browser import tab
from tests.dashboard.test_tasks import SEEN, events, get, running, shown_tasks, tasks_of
from tests.server.conftest import served
from tests.spark.test_run_command import APP, printed, tidegate
from tests.spark.test_run_command import running as run_command
from tests.waiting import wait_for

from tidegate.config.config import load_config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak(only="starts Spark and a browser, and the fleet of test_tasks shows the same"),
]


def test_a_killed_python_worker_is_lost_and_its_tasks_run_again(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    tidegate(tmp_path, "topics", "create", "lines", "--partitions", "4")
    with (
        run_command(tmp_path, "shop:app", "--slots", "2") as (_, lines),
        served(load_config(environ={}, folder=tmp_path)) as url,
        tab(browser, url) as opened,
    ):
        killed = printed(lines, r"shop: slot 1: attempt 1 runs on \S+, process (\d+)")
        page = opened.live("/tasks")
        running(page, 4)
        assert shown_tasks(page) == tasks_of(url)
        for key in range(20):
            tidegate(tmp_path, "topics", "send", "lines", f"k{key}", "a", "b")
        mine = sorted(task for task, (slot, _) in tasks_of(url).items() if slot == 1)
        page.evaluate(SEEN)
        os.kill(int(killed[1]), signal.SIGKILL)
        slot_1 = page.locator("[data-slot='1']")
        expect(slot_1.locator(".badge")).not_to_have_text("running")
        printed(lines, r"shop: slot 1: attempt 2 runs on")
        expect(slot_1).to_contain_text("2 of 2 tasks run", timeout=60_000)
        expect(slot_1).to_contain_text(re.compile(r"1 restart\b"))
        running(page, 4)
        wait_for(lambda: shown_tasks(page) == tasks_of(url))
        [app] = get(url, "/tasks")["apps"]
        [slot] = [one for one in app["slots"] if one["slot"] == 1]
        assert (slot["restarts"], sorted(slot["tasks"])) == (1, mine)
        [failure] = [one for one in events(url, "failure") if one["code"] == "slot-lost"]
        assert failure
        expect(page.get_by_text(re.compile("slot-lost")).first).to_be_visible()
        seen = set(page.evaluate("[...window.seen]"))
        assert seen - {"running"}, "the page showed that the tasks did not run meanwhile"
