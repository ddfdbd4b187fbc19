"""Every route for all: axe finds nothing, in light and dark, wide and on a phone, and nothing is cut off.

Each run looks at each size and each scheme, `make soak` at each size in each scheme."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.browser import AXE, PHONE, WIDE, Tab
from tests.dashboard.conftest import Open
from tests.dashboard.letters import LETTERS, LINES, shop
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.repetitions import SOAK
from tests.waiting import wait_for

from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import TopicPartition

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core. Do: make setup-tests"),
]
SHOWN = [(WIDE, "light"), (PHONE, "dark")]
if SOAK:
    SHOWN += [(WIDE, "dark"), (PHONE, "light")]
ROUTES = {
    "/": "[data-app=gated]",
    "/gates": "table a",
    "/gates/door?app=gated": "table a",
    "/gates/door/key?key=ada&app=gated": "[data-column=held] li",
    "/topology/gated": "svg [data-step]",
    "/topology/gated?view=table&step=0": "aside",
    "/topics": "table a",
    "/topics/events": "[data-record]",
    "/topics/events?record=1/0": "aside [role=tabpanel]",
    "/stores?all=1": "table a",
    "/stores/counted?app=gated&row=1/%22ada%22": "aside [data-json]",
    "/models": "[data-state=empty]",
    "/upgrades": "[data-app=gated]",
    "/tasks": "[data-task]",
    "/audit": "[data-audit]",
    "/dead-letters/shop?letter=0/0": "aside [role=tabpanel]",
    "/nowhere": "[data-state=gone]",
}


def test_axe_finds_nothing_on_any_route(
    open_tab: Open, working: Working, connection: Connection, log: SqliteLog, tmp_path: Path
) -> None:
    with closing(Working(log, tmp_path / "shop", shop)):
        connection.send(LINES, "ada", "two")
        letters = TopicPartition(LETTERS, 0)
        wait_for(lambda: LETTERS in log.names() and log.ends([letters])[letters] == 1)
    connection.send(EVENTS, "ada", 1, 2)
    opened = open_tab()
    page = opened.live("/gates/door/key?key=ada&app=gated")
    expect(page.locator("[data-key-state=active]")).to_be_visible()
    page.keyboard.press("p")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert opened.violations() == []  # of the dialog
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("[data-step=applied]")).to_be_visible()
    connection.send(EVENTS, "ada", 3)
    found: dict[tuple[object, ...], list[object]] = {}
    for path, shown in ROUTES.items():
        opened.open(path)
        expect(page.locator(shown).first).to_be_visible()
        found |= {(path, *how): what for how, what in problems(opened).items()}
    assert found == {}


def problems(opened: Tab) -> dict[tuple[tuple[int, int], str], list[object]]:
    """What is wrong with a page, in light and dark, wide and on a phone."""
    found = {}
    for size, scheme in SHOWN:
        if wrong := problems_of(opened, opened.page, size, scheme):
            found[size, scheme] = wrong
    return found


def problems_of(opened: Tab, page: Page, size: tuple[int, int], scheme: str) -> list[object]:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*opened.violations(), *([f"{beyond} pixels too wide"] if beyond > 0 else [])]
