"""One browser at a time, a real server, and an app at work beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.dashboard.browser import Tab, launched, tab
from tests.server.conftest import config, connection, d, log, served, working

from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog

__all__ = ["config", "connection", "d", "log", "working"]
Open = Callable[..., Tab]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with the module: while it is there, no other test can run an event loop."""
    if shutil.which("chromium") is None:
        pytest.skip("needs Chromium, which is not installed. Do: sudo apt-get install chromium")
    with sync_playwright() as playwright:
        made = launched(playwright)
        yield made
        made.close()


@pytest.fixture
def serving(config: Config, log: SqliteLog) -> Callable[..., AbstractContextManager[str]]:
    """Starts a server on the log; `with serving() as url`."""
    assert log

    def start(**settings: Any) -> AbstractContextManager[str]:
        return served(config, **settings)

    return start


@pytest.fixture
def url(config: Config, log: SqliteLog) -> Iterator[str]:
    assert log
    with served(config) as made:
        yield made


@pytest.fixture
def open_tab(browser: Browser, url: str) -> Iterator[Open]:
    """Opens tabs of the server; keywords as of `tab`."""
    with ExitStack() as stack:

        def opened(**options: Any) -> Tab:
            return stack.enter_context(tab(browser, url, **options))

        yield opened
