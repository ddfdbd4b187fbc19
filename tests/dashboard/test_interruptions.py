"""The stream of a tab: its server is killed, its tab is hidden; its token is never in an address or a log."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.dashboard.browser import tab
from tests.dashboard.conftest import Open
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.waiting import wait_for

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.server.tokens import Scope, add_token

pytestmark = pytest.mark.slow
FIRST = 200
"""Records before the page is opened, of which it shows the last 100."""


@contextmanager
def server_process(folder: Path, port: int, output: Path) -> Iterator[int]:
    """`tidegate serve`, killed at the end."""
    command = [sys.executable, "-m", "tidegate", "serve", "--port", str(port)]
    command += ["--log", "sqlite:///log.db", "--tokens", "tokens.json"]
    with (
        output.open("ab") as file,
        subprocess.Popen(command, cwd=folder, stdout=file, stderr=file) as process,
    ):
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def sending(connection: Connection) -> Iterator[list[int]]:
    """Numbers from 200 on, ten a second: those that were sent."""
    ended, sent = threading.Event(), list[int]()

    def work() -> None:
        while not ended.wait(0.1):
            connection.send(EVENTS, "ada", FIRST + len(sent))
            sent.append(FIRST + len(sent))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()


def test_a_killed_server_is_shown_as_stale_and_the_records_go_on(
    browser: Browser, config: Config, connection: Connection
) -> None:
    """Without loss, repetition, or a jump of what is read; and nobody logged the token."""
    connection.send(EVENTS, "ada", *range(FIRST))
    token = add_token(config.folder / "tokens.json", "alice", Scope.OPERATE)
    output = config.folder / "serve.txt"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tab(browser, f"http://127.0.0.1:{port}", token=token) as opened:
        with server_process(config.folder, port, output) as pid:
            wait_for(lambda: b"/ui/" in output.read_bytes())
            page = opened.live("/topics/events")
            rows = page.locator("[data-rows]")
            expect(rows).to_have_attribute("data-rows", "100")
            rows.evaluate("one => one.scrollTo(0, 1000)")
            with sending(connection) as sent:
                expect(page.get_by_role("button", name="new records")).to_be_visible()
                os.kill(pid, signal.SIGKILL)
                expect(page.locator("[data-connection=stale]")).to_be_visible()
                before = len(sent)
                with server_process(config.folder, port, output):
                    expect(page.locator("[data-connection=live]")).to_be_visible(timeout=60_000)
                    wait_for(lambda: len(sent) > before + 5)
                    go_on(page, sent, connection)
        assert [one for one in [*opened.requests, page.url] if token in one] == []
    assert output.read_bytes().count(b"/ui/") == 2
    assert token.encode() not in output.read_bytes()


def go_on(page: Page, sent: list[int], connection: Connection) -> None:
    """The page has not moved, and has each record once."""
    rows = page.locator("[data-rows]")
    assert rows.evaluate("one => one.scrollTop") == 1000
    connection.send(EVENTS, "ada", -1)  # a mark behind some of them
    page.get_by_role("button", name="new records").click()
    expect(page.locator("[data-record] .value").filter(has_text="-1").first).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Stop").click()
    count = int(rows.get_attribute("data-rows") or 0)
    known = rows.evaluate(
        """async one => {
             const found = new Map();
             for (let at = 0; at <= one.scrollHeight; at += 300) {
               one.scrollTo(0, at);
               await new Promise(requestAnimationFrame);
               await new Promise(requestAnimationFrame);
               for (const row of one.querySelectorAll("[data-record]"))
                 found.set(row.dataset.record, Number(row.querySelector(".value").textContent));
             }
             return [...found].sort((a, b) => Number(a[0].split("/")[1]) - Number(b[0].split("/")[1])); }"""
    )
    assert len(known) == count, "a record is shown twice"
    values = [value for _, value in known]
    values = values[: values.index(-1)]
    assert values == list(range(100, values[-1] + 1))
    assert values[-1] >= FIRST + 10


def test_a_hidden_tab_has_no_stream_and_goes_on_when_it_is_shown(
    open_tab: Open, working: Working, connection: Connection
) -> None:
    connection.send(EVENTS, "ada", 1)
    opened, other = open_tab(), open_tab()
    page = opened.live("/topics/events")
    expect(page.locator("[data-record]")).to_have_count(1)
    other.live()
    wait_for(lambda: streams(other.page) == 2)
    opened.hide()
    wait_for(lambda: streams(other.page) == 1)
    connection.send(EVENTS, "ada", 2, 3)
    opened.hide(hidden=False)
    expect(page.locator("[data-record]")).to_have_count(3)
    expect(page.locator("[data-connection=live]")).to_be_visible()
    wait_for(lambda: streams(other.page) == 2)


def streams(page: Page) -> int:
    found: str = page.evaluate("fetch('/metrics').then(one => one.text())")
    [line] = [one for one in found.splitlines() if one.startswith("tidegate_server_streams ")]
    return int(float(line.split()[1]))
