"""Models in the browser: ids, the live state, the history, and the one patch after a return."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.dashboard.browser import AXE, Tab, tab
from tests.dashboard.conftest import Open
from tests.dashboard.test_accessibility import problems
from tests.dashboard.test_tasks import delay_changelogs
from tests.models.app import EVENTS, Closed, Started, StepDone
from tests.server.conftest import d
from tests.waiting import wait_for

from tidegate.testing import Driver

__all__ = ["d"]
pytestmark = pytest.mark.slow
ODD = '../<img src=x onerror=alert(1)>"'


def sent(d: Driver, id: str, *events: Started | StepDone | Closed) -> None:
    d.send(EVENTS, id, *events)
    d.run()


def streams(url: str) -> str:
    """How many streams of models the server has."""
    found = re.search(
        r"^tidegate_server_model_streams (\S+)", httpx2.get(f"{url}/metrics").text, re.MULTILINE
    )
    assert found is not None
    return found[1]


def read(url: str, id: str, sequence: int) -> None:
    """Wait until the server has read a version of the first life: else it comes as the second frame."""
    path = f"{url}/workflows/{quote(id, safe='').replace('.', '%2E')}"
    wait_for(lambda: httpx2.get(path).json()["token"].startswith(f"1-{sequence}-"))


def link(page: Page, state: str) -> None:
    expect(page.locator("[data-link]")).to_have_attribute("data-link", state)


def test_one_patch_after_a_return_however_much_changed(open_tab: Open, url: str, d: Driver) -> None:
    opened = open_tab()
    page = opened.live("/models")
    page.get_by_role("link", name="workflows", exact=True).click()
    expect_accessible(opened)
    page.get_by_role("link", name="w1").click()
    link(page, "live")
    state = page.locator("[data-model-state]")
    expect(state).to_contain_text('"pack": 1.5')
    sent(d, "w1", StepDone("label", 2.5))
    expect(page.locator(".touched")).to_have_text(['"label": 2.5'])
    expect(page.locator("[data-version]")).to_have_count(3)
    page.keyboard.press("x")
    link(page, "away")
    wait_for(lambda: streams(url) == "0")
    sent(d, "w1", *(StepDone("send", float(seconds)) for seconds in range(20)), Started("Shipped"))
    read(url, "w1", 24)
    expect(state).to_contain_text('"title": "Ship"')
    page.keyboard.press("x")
    returned = page.locator("[data-returned=patch]")
    expect(returned).to_contain_text("21 versions in one frame")
    expect(returned.locator("[data-patch] li")).to_have_text(["steps.send = 19", 'title = "Shipped"'])
    expect(state).to_contain_text('"title": "Shipped"')
    expect(page.locator("[data-version]")).to_have_count(24)
    expect(page.get_by_role("link", name="workflow-events/").first).to_be_visible()
    expect_accessible(opened)
    sent(d, "w1", Closed())
    expect(page.locator("[data-state=gone]")).to_contain_text("w1 does not exist")
    sent(d, "w1", Started("Again"))
    expect(state).to_contain_text('"title": "Again"')


def test_a_server_that_reads_late_is_catching_up_and_not_unchanged(
    open_tab: Open, url: str, d: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_tab().live("/models/workflows/id?id=w1")
    link(page, "live")
    page.keyboard.press("x")
    link(page, "away")
    wait_for(lambda: streams(url) == "0")
    page.keyboard.press("x")
    expect(page.locator("[data-returned=patch]")).to_contain_text("Nothing changed")
    page.keyboard.press("x")
    link(page, "away")
    page.evaluate(
        """() => { window.texts = new Set(); new MutationObserver(() => {
             const found = document.querySelector("[data-returned]");
             if (found !== null) window.texts.add(found.innerText);
           }).observe(document.body, { subtree: true, childList: true }); }"""
    )
    delay_changelogs(monkeypatch, 3)
    sent(d, "w1", StepDone("label", 2.5))
    page.keyboard.press("x")
    expect(page.locator("[data-catching]")).to_be_visible()
    expect(page.locator("[data-returned=patch] [data-patch] li")).to_have_text(["steps.label = 2.5"])
    expect(page.locator("[data-catching]")).to_have_count(0)
    assert not any("Nothing changed" in text for text in page.evaluate("[...window.texts]"))


def test_only_a_visible_tab_has_a_stream_and_only_one(open_tab: Open, url: str, d: Driver) -> None:
    """A browser has six connections to a server."""
    sent(d, ODD, Started("odd"))
    page = open_tab().live("/models/workflows?app=workflows")
    page.get_by_role("textbox", name="Id").fill(ODD)
    page.keyboard.press("Enter")
    link(page, "live")
    expect(page.locator("[data-model-state]")).to_contain_text('"title": "odd"')
    hide(page, hidden=True)
    link(page, "away")
    wait_for(lambda: streams(url) == "0")
    sent(d, ODD, StepDone("pack", 1.0))
    read(url, ODD, 2)
    hide(page, hidden=False)
    expect(page.locator("[data-patch] li")).to_have_text(['steps = {"pack": 1}'])
    other = page.context.new_page()
    other.goto(page.url)
    link(other, "live")
    link(page, "away")
    wait_for(lambda: streams(url) == "1")
    page.get_by_role("button", name="Follow here").click()
    link(page, "live")
    link(other, "away")


def test_a_restarted_server_is_shown_as_stale_and_the_state_goes_on(
    browser: Browser, serving: Callable[..., AbstractContextManager[str]], d: Driver
) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tab(browser, f"http://127.0.0.1:{port}") as opened:
        with serving(port=port):
            page = opened.live("/models/workflows/id?id=w1")
            link(page, "live")
            other = page.context.new_page()
            other.goto(f"{opened.url}/ui/stores/workflows?app=workflows")
            expect(other.locator("[data-row]")).to_have_count(1)
        link(page, "stale")
        expect(page.locator("[data-model-state]")).to_contain_text('"title": "Ship"')
        sent(d, "w1", Started("Later"))
        sent(d, "w2", Started("New"))
        with serving(port=port):
            link(page, "live")
            expect(page.locator("[data-model-state]")).to_contain_text('"title": "Later"')
            expect(page.locator(".touched")).to_have_text(['"title": "Later"'])
            expect(other.locator("[data-row]")).to_have_count(2)


def hide(page: Page, *, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
             Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
             document.dispatchEvent(new Event("visibilitychange")); }""",
        hidden,
    )


def expect_accessible(opened: Tab) -> None:
    if AXE.exists():
        assert problems(opened) == {}
