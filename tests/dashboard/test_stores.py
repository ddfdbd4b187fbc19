"""Stores in the browser: rows, what changes in them, and their position."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import Open
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.server.test_stores import visits

from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import TopicPartition

pytestmark = pytest.mark.slow


def test_rows_change_by_themselves_and_show_what_they_were(
    open_tab: Open, working: Working, connection: Connection
) -> None:
    connection.send(EVENTS, "ada", 1, 2)
    connection.send(EVENTS, "bob<img src=x onerror=alert(1)>", 1)
    page = open_tab().live("/stores")
    expect(page.locator("[data-store]")).to_have_count(1)
    page.get_by_role("button", name="Stores of gates, too").click()
    expect(page.locator("[data-store]")).to_have_count(4)
    page.get_by_role("link", name="counted").click()
    rows = page.locator("[data-row]")
    expect(rows).to_have_count(2)
    ada = rows.filter(has_text="ada")
    expect(ada.locator(".value")).to_have_text("2")
    before = page.locator("[data-position]").get_attribute("data-position")
    connection.send(EVENTS, "ada", 3)
    connection.send(EVENTS, "cy", 1)
    expect(ada).to_have_attribute("data-change", "changed")
    expect(ada.locator(".value")).to_have_text(re.compile(r"^3\s*was 2$"))
    expect(rows.filter(has_text="cy")).to_have_attribute("data-change", "new")
    expect(rows.filter(has_text="bob<img")).not_to_have_attribute("data-change", re.compile("."))
    after = page.locator("[data-position]").get_attribute("data-position")
    assert offsets(after) == offsets(before) + 2
    page.get_by_label("Only this key").fill("cy")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.get_by_role("heading", name="counted").click()
    page.keyboard.press("j")
    expect(page.locator("aside [data-json]")).to_have_text("1")
    page.get_by_role("link", name="All changes of this key").click()
    expect(page.locator("[data-record]")).to_have_count(1)


def test_rows_of_any_kind_are_exact_and_removed_ones_are_crossed_out(
    open_tab: Open, log: SqliteLog, tmp_path: Path
) -> None:
    with closing(Working(log, tmp_path, visits)):
        largest, moment = b"\xff" * 8, 1_700_000_000_000
        log.append(TopicPartition("visits", 0), to_batch([Row(b"ada", largest, moment)]))
        page = open_tab().live("/stores/last?app=visits")
        expect(page.locator("[data-row] .value")).to_have_text(str(2**63 - 1))
        expect(page.locator("[data-row]")).to_contain_text("2023-11-14T22:13:20.000Z")
        log.append(TopicPartition("visits-last-changelog", 0), to_batch([Row(b"ada", None, moment)]))
        expect(page.locator("[data-row]")).to_have_attribute("data-change", "removed")
        expect(page.locator("[data-row] del")).to_have_text(str(2**63 - 1))
        page.goto(page.url.replace("last", "windows"))
        expect(page.locator("[data-row]")).to_contain_text("2023-11-14T22:13:20.000Z")
        page.goto(page.url.replace("windows", "unlogged"))
        command = page.locator("[data-state=empty] code")
        expect(command).to_have_text("tidegate state range unlogged --app visits")


def offsets(position: str | None) -> int:
    return sum(int(offset) for offset in re.findall(r"=(\d+)", position or ""))
