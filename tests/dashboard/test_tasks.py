"""Tasks in the browser: a worker that is killed, and rates that agree with offsets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Open
from tests.runtime.fleet import LINES, Fleet, send
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.connect.connection import Connection
from tidegate.log.protocol import Fetched
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.types import TopicPartition

pytestmark = pytest.mark.slow
SEEN = """
window.seen = new Set();
new MutationObserver(() => {
  for (const one of document.querySelectorAll("[data-task] .badge")) window.seen.add(one.textContent);
  if (/restores [0-9,]+ of [1-9][0-9,]*/.test(document.body.innerText)) window.seen.add("progress");
}).observe(document.body, { subtree: true, childList: true, characterData: true });
"""


@pytest.fixture
def worker(log: SqliteLog, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An app with two slots in a process of its own."""
    assert log
    with subprocess.Popen([sys.executable, "-m", "tests.dashboard.worker", str(tmp_path)]) as process:
        yield process
        process.kill()


def test_a_killed_worker_is_silent_then_its_tasks_move_and_restore(
    open_tab: Open,
    url: str,
    worker: subprocess.Popen[bytes],
    log: SqliteLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = open_tab().live("/tasks")
    expect(page.locator("[data-slot]")).to_have_count(2)
    running(page, 6)
    before = tasks_of(url)
    assert shown_tasks(page) == before
    moved = sorted(task for task, (slot, _) in before.items() if slot == 1)
    fleet = Fleet(log, tmp_path / "second")
    send(fleet, 0, 300)
    wait_for(lambda: sum(fleet.counts().values()) == 900)
    page.evaluate(SEEN)

    os.kill(worker.pid, signal.SIGKILL)
    worker.wait(HANG_SECONDS)
    expect(page.locator("[data-slot='1'] .badge")).to_have_text("silent")
    assert {state for _, state in tasks_of(url).values()} == {"silent"}

    delay_changelogs(monkeypatch, 3)
    with fleet.running(slots=1):
        expect(page.locator("[data-slot]")).to_have_count(1)
        running(page, 6)
        assert shown_tasks(page) == tasks_of(url)
        [move] = events(url, "move")
        assert (move["from"]["slot"], move["to"]["slot"], sorted(move["tasks"])) == (1, 0, moved)
        line = page.get_by_role("listitem").filter(has_text=re.compile(r"slot 1 on .* → slot 0 on "))
        for task in moved:
            expect(line).to_contain_text(task)
    assert {"silent", "restoring", "progress", "running"} <= set(page.evaluate("[...window.seen]"))


def delay_changelogs(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Read nothing from changelogs for a while, as on a slow disk: the restore is seen."""
    began: list[float] = []
    page = SqliteReader._page

    def late(self: SqliteReader) -> list[Fetched]:
        if not any("changelog" in one.topic for one in self._ids):
            return page(self)
        if not began:
            began.append(time.monotonic())
        return [] if time.monotonic() < began[0] + seconds else page(self)

    monkeypatch.setattr(SqliteReader, "_page", late)


def running(page: Page, tasks: int) -> None:
    badges = page.locator("[data-task] .badge").filter(has_text="running")
    expect(badges).to_have_count(tasks, timeout=60_000)


def shown_tasks(page: Page) -> dict[str, tuple[int, str]]:
    rows = page.locator("[data-task]").evaluate_all(
        """rows => rows.map(row => {
             const [, state, slot] = row.children;
             return [row.dataset.task, slot.textContent, state.textContent]; })"""
    )
    return {task: (int(slot), state) for task, slot, state in rows}


def tasks_of(url: str) -> dict[str, tuple[int, str]]:
    [app] = get(url, "/tasks")["apps"]
    return {task: (slot["slot"], slot["state"]) for slot in app["slots"] for task in slot["tasks"]}


def events(url: str, kind: str) -> list[Any]:
    found: list[Any] = get(url, f"/events?kind={kind}")["events"]
    return found


def get(url: str, path: str) -> Any:
    answer = httpx2.get(f"{url}{path}", timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextmanager
def steadily(connection: Connection, per_second: int) -> Iterator[None]:
    """Send so many records a second, in ten parts; after a delay the missing ones follow at once."""
    ended = threading.Event()

    def work() -> None:
        began, sent = time.monotonic(), 0
        while not ended.wait(0.1):
            due = int((time.monotonic() - began) * per_second) - sent
            connection.send(LINES, "ada", *["a"] * due)
            sent += due

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_the_rate_of_a_topic_is_that_of_its_offsets(
    open_tab: Open, connection: Connection, log: SqliteLog
) -> None:
    connection.send(LINES, "ada", "a")
    parts = [TopicPartition(LINES.name, number) for number in range(log.describe(LINES.name).partitions)]
    page = open_tab().live("/topics")
    row = page.get_by_role("row").filter(has_text=LINES.name)
    with steadily(connection, 300):
        expect(row).to_contain_text(re.compile(r"[0-9]{3}/s"))
        page.wait_for_timeout(6000)  # a rate is that of the last 5 seconds

        def agree() -> bool:
            start, began = sum(log.ends(parts).values()), time.monotonic()
            page.wait_for_timeout(5500)
            counted = (sum(log.ends(parts).values()) - start) / (time.monotonic() - began)
            [shown] = re.findall(r"([0-9,.]+)/s", row.inner_text())
            return float(shown.replace(",", "")) == pytest.approx(counted, rel=0.1)

        assert any(agree() for _ in range(5)), "on a busy machine the last 5 seconds may be others"
