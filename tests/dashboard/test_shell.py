"""The frame of the dashboard: who may enter, the connection, the keyboard, and pages that are not there."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browser import PHONE, tab
from tests.dashboard.conftest import Open
from tests.gate.app import EVENTS
from tests.gate.working import Working

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.server.tokens import Scope, add_token, remove_token

pytestmark = pytest.mark.slow
Serving = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def tokens(config: Config) -> Path:
    return config.folder / "tokens.json"


def test_a_token_is_pasted_once_and_never_in_a_url(
    browser: Browser, serving: Serving, tokens: Path, working: Working
) -> None:
    token = add_token(tokens, "alice", Scope.OPERATE)
    with serving(tokens=tokens.name) as url, tab(browser, url) as opened:
        page = opened.open("/gates")
        page.get_by_role("textbox", name="Token").fill("wrong")
        page.get_by_role("button", name="Open the dashboard").click()
        expect(page.get_by_text("does not accept this token")).to_be_visible()
        page.get_by_role("textbox", name="Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Gates")).to_be_visible()
        expect(page.get_by_role("link", name="door", exact=True)).to_be_visible()
        page.reload()
        expect(page.get_by_role("link", name="door", exact=True)).to_be_visible()
        assert [one for one in [*opened.requests, page.url] if token in one] == []
        assert page.evaluate("[localStorage.length, document.cookie]") in ([0, ""], [1, ""])


def test_a_token_to_read_names_the_scope_that_an_action_needs(
    browser: Browser, serving: Serving, tokens: Path, working: Working
) -> None:
    token = add_token(tokens, "rita", Scope.READ)
    with serving(tokens=tokens.name) as url, tab(browser, url, token=token) as opened:
        page = opened.live("/gates/door/key?key=ada&app=gated")
        button = page.get_by_role("button", name="Pause")
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(page.get_by_text('"rita" has the scope read; this needs operate')).to_be_visible()
        button.click(force=True)
        page.keyboard.press("p")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_removed_token_leads_back_to_the_login(
    browser: Browser, serving: Serving, tokens: Path, working: Working
) -> None:
    token = add_token(tokens, "rita", Scope.READ)
    with serving(tokens=tokens.name) as url, tab(browser, url, token=token) as opened:
        page = opened.live()
        remove_token(tokens, "rita")
        expect(page.get_by_text("does not accept this token any more")).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('tidegate.token')") is None


def test_a_restarted_server_is_shown_as_stale_and_the_records_go_on(
    browser: Browser, serving: Serving, working: Working, connection: Connection
) -> None:
    """Without loss, repetition, or a jump of what is read."""
    connection.send(EVENTS, "ada", *range(200))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tab(browser, f"http://127.0.0.1:{port}") as opened:
        with serving(port=port):
            page = opened.live("/topics/events")
            rows = page.locator("[data-rows]")
            expect(rows).to_have_attribute("data-rows", "100")
            rows.evaluate("one => one.scrollTo(0, 1000)")
            connection.send(EVENTS, "ada", 200)
            expect(page.get_by_role("button", name="1 new records")).to_be_visible()
        expect(page.locator("[data-connection=stale]")).to_be_visible()
        connection.send(EVENTS, "ada", *range(201, 221))
        with serving(port=port):
            expect(page.locator("[data-connection=live]")).to_be_visible()
            expect(page.get_by_role("button", name="21 new records")).to_be_visible()
            assert rows.evaluate("one => one.scrollTop") == 1000
            page.get_by_role("button", name="21 new records").click()
            expect(rows).to_have_attribute("data-rows", "121")
            values = page.locator("[data-record] .value").all_inner_texts()
            assert values[:22] == [str(number) for number in range(220, 198, -1)]


def test_the_keyboard_reaches_everything(open_tab: Open, working: Working) -> None:
    page = open_tab().live()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("gate door")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/ui/gates/door\?app=gated$"))
    page.go_back()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("/", "No app has run on this log yet"),
        ("/gates", "No app has a gate"),
        ("/topology", "No app has run on this log yet"),
        ("/topics", "The log has no topic yet"),
        ("/stores", "No app has a store"),
        ("/upgrades", "No app has run on this log yet"),
        ("/tasks", "No app has run on this log yet"),
        ("/dead-letters", "No app has run on this log yet"),
        ("/audit", "Nothing was paused yet"),
    ],
)
def test_a_screen_without_data_names_the_command_to_begin_with(open_tab: Open, path: str, state: str) -> None:
    page = open_tab().live(path)
    expect(page.locator("[data-state=empty]")).to_contain_text(state)
    expect(page.locator("[data-state=empty] code")).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        *(f"/{one}/never" for one in ("gates", "topics", "stores", "topology", "dead-letters", "upgrades")),
        "/gates/never/key?key=a",
        "/audit?gate=never",
    ],
)
def test_what_is_gone_is_shown_as_gone(open_tab: Open, path: str) -> None:
    page = open_tab().open(path)
    expect(page.locator("[data-state=gone]").first).to_be_visible()
    expect(page.get_by_role("link", name="To the overview").first).to_be_visible()


def test_an_unreachable_server_is_an_error_with_another_try(browser: Browser, serving: Serving) -> None:
    with tab(browser, "http://127.0.0.1:9") as opened, serving() as url:
        opened.url = url
        opened.page.route("**/me", lambda route: route.abort())
        page = opened.open()
        expect(page.locator("[data-state=error]")).to_contain_text("does not answer")
        page.unroute("**/me")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("[data-connection=live]")).to_be_visible()


def test_a_log_that_cannot_be_read_is_named_and_the_last_numbers_stay(
    open_tab: Open, working: Working
) -> None:
    opened = open_tab()
    page = opened.live()
    expect(page.locator("[data-app=gated]")).to_be_visible()
    failed = {"n": 9, "at": 2e12, "server": {"streams": 1, "trouble": ["log-closed: the disk is full"]}}
    lines = [{"event": "hello", "stream": "s"}, {"event": "frame", **failed}]
    body = "".join(f"{json.dumps(one)}\n" for one in lines)
    page.route("**/summary/live", lambda route: route.fulfill(body=body, content_type="application/x-ndjson"))
    opened.away(4000)
    expect(page.locator("[data-connection=stale]")).to_contain_text("the disk is full; numbers are from")
    expect(page.locator("[data-app=gated]")).to_be_visible()


def test_a_page_that_loads_shows_its_shape(open_tab: Open, working: Working) -> None:
    opened = open_tab(size=PHONE)
    opened.page.route("**/topics?details=true", lambda _: None)
    page = opened.live("/topics")
    expect(page.locator("[data-state=loading]")).to_be_visible()
    page.unroute("**/topics?details=true")


def test_nothing_is_requested_while_nothing_happens(open_tab: Open, working: Working) -> None:
    opened = open_tab()
    page = opened.live()
    expect(page.locator("[data-app=gated]")).to_be_visible()
    opened.requests.clear()
    for _ in range(3):  # three frames
        before = page.locator("[data-connection] ").inner_text()
        page.wait_for_function("n => performance.now() > n", arg=page.evaluate("performance.now()") + 1000)
        assert before == "Live"
    assert opened.requests == []
