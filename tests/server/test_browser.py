"""The page of examples/workflows in a real browser: it shows the state, follows it, and comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from tests.gate.working import Working
from tests.models.app import EVENTS, Started, StepDone, workflows
from tests.server.conftest import served
from tests.waiting import wait_for

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "workflows" / "page.html"
REPORT = """<script type="module">
addEventListener("shown", (event) => fetch("/report", { method: "POST", body: JSON.stringify(
  { ...event.detail, title: document.querySelector("#title").textContent,
    steps: document.querySelector("#steps").innerText }) }));
</script>"""
"""Added to the page: it reports what it shows."""
CHROMIUM = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium, which is not installed"),
]


class Site:
    """Serves the page, and collects its reports."""

    def __init__(self) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(PAGE.read_bytes().replace(b"</body>", REPORT.encode() + b"</body>"))

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                site.reports.append(msgspec.json.decode(self.rfile.read(size)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is named there
                """Print nothing."""

        self.reports: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as made:
        yield made


@contextmanager
def browser(url: str, folder: Path) -> Iterator[None]:
    environ = {**os.environ, "HOME": str(folder)}
    process = subprocess.Popen(
        [
            str(shutil.which("chromium")),
            *CHROMIUM,
            f"--user-data-dir={folder / 'profile'}",
            "--remote-debugging-port=0",
            url,
        ],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def test_a_page_shows_a_workflow_live(
    config: Config, log: SqliteLog, connection: Connection, site: Site, tmp_path: Path
) -> None:
    reports = site.reports
    with closing(Working(log, tmp_path, workflows)), served(config, origins=[site.origin]) as server:
        connection.send(EVENTS, "w/1", Started("Ship"), StepDone("pack", 1.5))
        page = f"{site.origin}/?server={quote(server, safe='')}&id={quote('w/1', safe='')}"
        with browser(page, tmp_path):
            wait_for(lambda: any(one["title"] == "Ship" and "1.5 s" in one["steps"] for one in reports))
            connection.send(EVENTS, "w/1", StepDone("send", 2.0), Started("Shipped <b>"))
            wait_for(lambda: reports[-1]["title"] == "Shipped <b>" and "send" in reports[-1]["steps"])
            assert reports[-1]["kind"] == "patch"
