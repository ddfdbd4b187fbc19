"""Dead letters and their redrive, and the audit of all gates, in the browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browser import tab
from tests.dashboard.conftest import Open
from tests.dashboard.letters import LETTERS, LINES, NUMBERS, fixed, shop
from tests.gate.working import Working
from tests.server.test_gates import APPLIED
from tests.waiting import wait_for

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.tokens import Scope, add_token
from tidegate.types import TopicPartition

pytestmark = pytest.mark.slow
Serving = Callable[..., AbstractContextManager[str]]
ATTACK = "<img src=x onerror='window.ran = 1'>"


@pytest.fixture
def failing(log: SqliteLog, tmp_path: Path) -> Iterator[Working]:
    """An app with dead letters, at work."""
    with closing(Working(log, tmp_path, shop)) as made:
        yield made
    fixed.clear()


def test_dead_letters_are_grouped_inspected_and_sent_back(
    open_tab: Open, failing: Working, connection: Connection, log: SqliteLog
) -> None:
    page = open_tab().live("/dead-letters")
    expect(page.locator("[data-state=empty]")).to_contain_text("No dead letter")
    connection.send(LINES, "ada", "1", "two", "three", "late", ATTACK)
    groups = page.locator("[data-group]")
    expect(page.locator("[data-letters='4']")).to_be_visible()
    expect(groups).to_have_count(2)
    expect(groups.first).to_contain_text(re.compile(r"letters\.py:\d+"))
    expect(groups.first).to_contain_text("invalid literal for int()")
    page.get_by_role("button", name="Inspect dead letter 1").click()
    expect(page.locator("[data-json]")).to_have_text('"three"')
    assert page.url.endswith("/dead-letters?letter=0%2F1")
    page.reload()
    expect(page.locator("[data-json]")).to_have_text('"three"')

    fixed.update({"two", "three", ATTACK})
    page.get_by_role("button", name="Send all 3 back").click()
    dialog = page.get_by_role("dialog", name="Send 3 dead letters back")
    confirm = dialog.get_by_role("button", name="Send 3 back")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Reason").fill("the parser is fixed")
    dialog.get_by_label("Type 3 to confirm").fill("2")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type 3 to confirm").fill("3")
    page.keyboard.press("Enter")
    expect(page.locator("[data-redriven='3']")).to_contain_text("3 dead letters sent back.")
    wait_for(lambda: [one.value for one in connection.read(NUMBERS)] == [1, 0, 0, 0])
    sent = [one for one in connection.read(LINES) if one.header("tidegate.redrive.from")]
    assert [one.header("tidegate.redrive.reason") for one in sent] == [b"the parser is fixed"] * 3
    assert [one.header("tidegate.redrive.from") for one in sent] == [
        f"{LETTERS}/0/{n}".encode() for n in (0, 1, 3)
    ]
    expect(page.locator("[data-letters='4']")).to_be_visible()  # they stay
    kept = groups.first.locator("[data-sent='3']")
    expect(kept).to_contain_text("All were sent back")
    kept.locator("summary").click()
    expect(kept.locator("li").first).to_contain_text(re.compile(r"3 → lines/\d/\d+, .*: the parser is fixed"))
    page.get_by_role("button", name="Send all 3 back").click()
    expect(dialog.locator("[data-sent-before='3']")).to_contain_text("All of them were sent back before")
    expect(dialog.get_by_role("button", name="Nothing to send")).to_be_disabled()
    dialog.get_by_label("Send these once more").check()
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type 3 to confirm").fill("3")
    confirm.click()
    expect(page.locator("[data-redriven='3']")).to_be_visible()
    expect(groups.first.locator("[data-sent='3'] li").first).to_contain_text("(2 times by now)")
    wait_for(lambda: len(list(connection.read(NUMBERS))) == 7)
    assert page.evaluate("window.ran") is None


def test_a_dead_letter_that_cannot_go_back_is_named_with_the_reason(
    open_tab: Open, failing: Working, connection: Connection, log: SqliteLog
) -> None:
    connection.send(LINES, "ada", "two")
    page = open_tab().live("/dead-letters/shop")
    expect(page.locator("[data-letters='1']")).to_be_visible()
    headers = (("tidegate.error.code", b"user-code"), ("tidegate.error.position", b"elsewhere/0/1"))
    log.append(TopicPartition(LETTERS, 0), to_batch([Row(b"k", b"v", 1, headers)]))
    page.get_by_role("button", name="Inspect dead letter 1").click()
    expect(page.locator("[data-json]")).to_have_text('"v"')
    group = page.locator("[data-group]").filter(has_text="elsewhere")
    group.get_by_role("button", name="Send it back").click()
    page.get_by_role("dialog").get_by_role("button", name="Send 1 back").click()
    expect(page.locator("[data-redriven='0']")).to_contain_text("not-redrivable")


def test_the_audit_names_who_paused_what_and_why(open_tab: Open, working: Working, url: str) -> None:
    page = open_tab().live("/audit")
    expect(page.locator("[data-state=empty]")).to_contain_text("Nothing was paused yet")
    call(url, "/gates/door/keys/ada/pause", "eve", "chargeback <b>")
    call(url, "/gates/door/keys/%FFb/pause", "mallory", ATTACK)
    rows = page.locator("[data-audit]")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("chargeback <b>")
    expect(rows.first).to_contain_text("0xff62")
    call(url, "/gates/door/keys/ada/resume", "eve", "done")
    call(url, "/gates/door/pause", "ops", "maintenance")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("all keys")
    page.get_by_label("Only this key").fill("ada")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Resumed").click()
    expect(rows).to_have_count(1)
    assert page.url.endswith("/audit?key=ada&status=active")
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Who or why contains").fill("mallory")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("0xff62")
    page.get_by_label("Who or why contains").fill("nobody at all")
    expect(page.locator("[data-state=empty]")).to_contain_text("All records were looked at")
    page.get_by_label("Who or why contains").fill("mallory")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="0xff62").click()
    expect(page.get_by_role("heading", name="0xff62")).to_be_visible()
    expect(page.locator("[data-key-state=paused]")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="door", exact=True).click()
    page.get_by_role("link", name="Who paused what").click()
    expect(rows).to_have_count(4)
    assert page.url.endswith("/audit?app=gated&gate=door")
    assert page.evaluate("window.ran") is None


def test_a_redrive_needs_the_scope_to_operate(
    browser: Browser, serving: Serving, config: Config, failing: Working, connection: Connection
) -> None:
    connection.send(LINES, "ada", "two")
    token = add_token(config.folder / "tokens.json", "rita", Scope.READ)
    with serving(tokens="tokens.json") as url, tab(browser, url, token=token) as opened:
        page = opened.live("/dead-letters")
        button = page.get_by_role("button", name="Send it back")
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(page.get_by_text('"rita" has the scope read; this needs operate')).to_be_visible()
        button.click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)


def call(url: str, path: str, actor: str, reason: str) -> None:
    answer = httpx2.post(f"{url}{path}", params=APPLIED, json={"actor": actor, "reason": reason}, timeout=60)
    assert answer.status_code == 200, answer.text
