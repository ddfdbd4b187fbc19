"""The frame of the dashboard: who may enter, the connection, the keyboard, and pages that are not there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Route, expect
from tests.dashboard.browser import PHONE, go_to, tab
from tests.dashboard.conftest import Open
from tests.gate.working import Working
from tests.repetitions import repeated

from tidegate.config.config import Config
from tidegate.server.tokens import Scope, add_token, remove_token
from tidegate.testing import Driver

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


def test_a_grant_for_one_id_is_forbidden_and_leads_to_the_login(
    browser: Browser, serving: Serving, tokens: Path, d: Driver
) -> None:
    assert d
    token = add_token(tokens, "backend", Scope.OPERATE)
    with serving(tokens=tokens.name) as url:
        granted = httpx2.post(
            f"{url}/grants",
            json={"model": "workflows", "id": "w1"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        ).json()
        with tab(browser, url) as opened:
            page = opened.open("/models")
            page.get_by_role("textbox", name="Token").fill(granted["grant"])
            page.keyboard.press("Enter")
            expect(page.locator("[data-state=forbidden]")).to_contain_text("does not open the dashboard")
            assert opened.violations() == []
            page.get_by_role("button", name="Use another token").click()
            page.get_by_role("textbox", name="Token").fill(token)
            page.keyboard.press("Enter")
            expect(page.locator("[data-connection=live]")).to_be_visible()


def test_what_a_token_may_not_read_is_forbidden(open_tab: Open, working: Working) -> None:
    """No token of today is refused a single page: the answer is made up."""
    error = {"code": "not-granted", "message": "no", "hint": "ask for more", "retryable": False, "id": "1"}

    def refuse(route: Route) -> None:
        route.fulfill(status=403, json={"error": error})

    opened = open_tab()
    opened.page.route(
        re.compile(r"^http://[^/]+/(summary/audit|apps/gated/dead-letters|topics\?|gates/door\?)"), refuse
    )
    for path in ("/audit", "/dead-letters/gated", "/topics", "/gates/door?app=gated"):
        page = opened.live(path)
        expect(page.locator("[data-state=forbidden]")).to_contain_text("Your token does not permit this")
        expect(page.locator("[data-state=forbidden]")).to_contain_text("ask for more")


def test_a_removed_token_leads_back_to_the_login(
    browser: Browser, serving: Serving, tokens: Path, working: Working
) -> None:
    token = add_token(tokens, "rita", Scope.READ)
    with serving(tokens=tokens.name) as url, tab(browser, url, token=token) as opened:
        page = opened.live()
        remove_token(tokens, "rita")
        expect(page.get_by_text("does not accept this token any more")).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('tidegate.token')") is None


def test_the_keyboard_reaches_everything(open_tab: Open, working: Working) -> None:
    page = open_tab().live()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    go_to(page, "t", "Topics")
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
        ("/models", "No app has a model"),
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
        "/models/never",
        "/models/never/id?id=w1",
        "/audit?gate=never",
    ],
)
def test_what_is_gone_is_shown_as_gone(open_tab: Open, path: str) -> None:
    page = open_tab().open(path)
    expect(page.locator("[data-state=gone]").first).to_be_visible()
    expect(page.get_by_role("link", name="To the overview").first).to_be_visible()


@pytest.mark.parametrize(("status", "state"), [(403, "forbidden"), (400, "error")])
def test_what_a_server_refuses_is_shown_with_its_reason(open_tab: Open, status: int, state: str) -> None:
    calls = {
        "/stores": r"/stores$",
        "/stores/one": r"/stores$",
        "/models": r"/stores$",
        "/models/one": r"/one\?limit",
        "/models/one/id?id=w1": r"/one/w1/events$",
        "/upgrades": r"/upgrades$",
        "/upgrades/one": r"/upgrades\?app=one$",
    }
    error = {"code": "odd-code", "message": "The reason", "hint": "", "retryable": False}
    opened = open_tab()
    for path, call in calls.items():
        called = re.compile(rf"^http://[^/]+{call}")
        opened.page.route(called, lambda route: route.fulfill(status=status, json={"error": error}))
        page = opened.live(path)
        expect(page.locator(f"[data-state={state}]")).to_contain_text("The reason")
        if state == "error":
            expect(page.get_by_role("button", name="Try again")).to_be_visible()
        page.unroute(called)


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


@pytest.mark.soak
def test_nothing_is_requested_while_nothing_happens(open_tab: Open, working: Working) -> None:
    """The page has one stream, and its frames arrive."""
    opened = open_tab()
    page = opened.live()
    expect(page.locator("[data-app=gated]")).to_be_visible()
    assert [one for one in opened.requests if one.endswith("/summary/live")] == [f"{opened.url}/summary/live"]
    opened.requests.clear()
    for _ in range(repeated(3, 60)):
        page.wait_for_timeout(1000)
        assert page.locator("[data-connection]").inner_text() == "Live"
    assert opened.requests == []
