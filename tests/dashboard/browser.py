"""A page in Chromium, which fails its test when something runs or is blocked that should not."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Error, Page, Playwright, expect
from playwright.sync_api import TimeoutError as TooLate
from scripts.build_dashboard import PROJECT
from tests.waiting import wait_for

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
AXE = PROJECT.modules / "axe-core" / "axe.min.js"
WATCH = """
window.blocked = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.blocked.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
window.longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ entryTypes: ["longtask"] });
"""
measured = logging.getLogger("tests.dashboard")
"""Figures, shown by `pytest --log-cli-level=INFO`."""
WIDE, PHONE = (1280, 800), (390, 844)
expect.set_options(timeout=20_000)


def launched(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*ARGUMENTS])


@dataclass
class Tab:
    """One page of the dashboard, and what it reported."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: str = "/") -> Page:
        self.page.goto(f"{self.url}/ui{path}")
        return self.page

    def live(self, path: str = "/") -> Page:
        """Open a page, and wait until it is connected."""
        self.open(path)
        expect(self.page.locator("[data-connection=live]")).to_be_visible()
        return self.page

    def hide(self, *, hidden: bool = True) -> None:
        """As if another tab were in front of this one, or not any more."""
        self.page.evaluate(
            """hidden => { Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                          document.dispatchEvent(new Event("visibilitychange")); }""",
            hidden,
        )

    def away(self, milliseconds: int) -> None:
        """Hide the tab for a while: longer than three seconds, and it connects again."""
        self.hide()
        self.page.wait_for_timeout(milliseconds)
        self.hide(hidden=False)

    def blocked(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.blocked ?? []")
        return found

    def violations(self) -> list[dict[str, Any]]:
        """What axe finds wrong with the page."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())  # over DevTools: the page's policy does not apply
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [
            {"rule": one["id"], "nodes": [node["html"] for node in one["nodes"]][:3]}
            for one in found["violations"]
        ]


@contextmanager
def tab(
    browser: Browser,
    url: str,
    *,
    dark: bool = False,
    size: tuple[int, int] = WIDE,
    token: str | None = None,
    motion: bool = False,
) -> Iterator[Tab]:
    """A tab of its own, without anything stored. At its end nothing may have failed or been blocked.

    Most tests prefer no `motion`: without a GPU, animations take a sixth of the CPU time of a test."""
    context = browser.new_context(
        color_scheme="dark" if dark else "light",
        viewport={"width": size[0], "height": size[1]},
        reduced_motion="no-preference" if motion else "reduce",
    )
    try:
        context.add_init_script(WATCH)
        if token is not None:
            context.add_init_script(f"sessionStorage.setItem('tidegate.token', {token!r})")
        page = context.new_page()
        made = Tab(page, url)
        page.on("pageerror", lambda error: made.errors.append(str(error)))
        page.on("request", lambda request: made.requests.append(request.url))
        yield made
        with suppress(Error):  # the page shows that its server does not answer
            assert made.blocked() == []
        assert made.errors == [], made.errors
    finally:
        context.close()


def go_to(page: Page, key: str, heading: str) -> None:
    """Go to a screen by the keyboard. The second key must follow within a second and a half, which a busy
    machine may not manage: then both are pressed again."""

    def arrived() -> bool:
        page.keyboard.press("g")
        page.keyboard.press(key)
        with suppress(TooLate):
            page.get_by_role("heading", name=heading, level=1).wait_for(timeout=3_000)
            return True
        return False

    wait_for(arrived)
