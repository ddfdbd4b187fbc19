"""The topology in the browser: a graph, a table with the same data, and a side panel."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browser import go_to, measured, tab
from tests.dashboard.conftest import Open
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.repetitions import repeated

from tidegate import App, Topic
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog

pytestmark = pytest.mark.slow
LINES, OUT = Topic("lines", int), Topic("out", int)


def test_the_table_has_the_same_steps_as_the_graph(
    open_tab: Open, working: Working, connection: Connection
) -> None:
    page = open_tab().live("/topology/gated")
    connection.send(EVENTS, "ada", 1)
    nodes = page.locator("svg [data-step]")
    expect(nodes.first).to_be_visible()
    drawn = set(nodes.evaluate_all("all => all.map(one => one.dataset.step)"))
    page.get_by_role("button", name="Table", exact=True).click()
    rows = page.locator("tr[data-step]")
    expect(rows).to_have_count(len(drawn))
    assert set(rows.evaluate_all("all => all.map(one => one.dataset.step)")) == drawn
    page.get_by_role("button", name="door", exact=True).click()
    panel = page.get_by_role("complementary", name="Step door")
    expect(panel).to_contain_text("app.py:")
    expect(panel.get_by_role("link", name="door", exact=True)).to_be_visible()
    page.reload()
    expect(panel).to_be_visible()


def test_a_gate_in_the_graph_shows_what_it_holds(
    open_tab: Open, working: Working, connection: Connection
) -> None:
    page = open_tab().live("/gates/door/key?key=ada&app=gated")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("[data-step=applied]")).to_be_visible()
    connection.send(EVENTS, "ada", 1, 2)
    go_to(page, "y", "Topology")
    expect(page.get_by_text("2 held, 1 paused")).to_be_visible()


def many() -> App:
    """Two hundred steps, in chains from one source."""
    app = App("many")
    source = app.stream(LINES)
    for _ in range(20):
        chain = source
        for _ in range(9):
            chain = chain.map(same)
        chain.to(OUT)
    return app


def same(number: int) -> int:
    return number


@pytest.mark.soak
def test_two_hundred_steps_are_drawn_without_blocking_the_page(
    browser: Browser,
    serving: Callable[..., AbstractContextManager[str]],
    log: SqliteLog,
    tmp_path: Path,
) -> None:
    with closing(Working(log, tmp_path, many)), serving() as url, tab(browser, url) as opened:
        page = opened.live()
        expect(page.locator("[data-app=many]")).to_be_visible()
        page.evaluate("window.longest = 0")
        began = time.monotonic()
        page.get_by_role("link", name="Topology").click()
        expect(page.locator("svg [data-step]")).to_have_count(201)
        took, longest = time.monotonic() - began, page.evaluate("window.longest")
        measured.info(f"200 steps: drawn in {took:.1f} s, longest task {longest:.0f} ms")
        assert took < repeated(10, 2)  # the suite runs beside other processes
        assert longest < repeated(500, 100)
