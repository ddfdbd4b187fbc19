"""Upgrades in the browser: the plan, the rows that differ, consent, cancelling, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browser import AXE, Tab, tab
from tests.dashboard.conftest import Open
from tests.dashboard.test_accessibility import problems
from tests.upgrade.test_upgrade import TOTALS, shop
from tests.upgrade.test_upgrade_refused import sent

from tidegate import UpgradeError
from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.tokens import Scope, add_token
from tidegate.testing import Driver
from tidegate.upgrade.consent import Consent

pytestmark = pytest.mark.slow


@pytest.fixture
def d(log: SqliteLog) -> Iterator[Driver]:
    with Driver(shop(), partitions=2, log=log) as made:
        sent(made)
        yield made


def waits(d: Driver, limit: int) -> None:
    """Begin an upgrade, which ends where it needs consent."""
    with pytest.raises(UpgradeError):
        d.upgrade(shop(limit), Consent())


def test_an_upgrade_from_its_plan_to_the_way_back(open_tab: Open, d: Driver) -> None:
    opened = open_tab()
    page = opened.live("/upgrades/shop")
    expect(page.locator("[data-state=empty] code")).to_have_text("tidegate plan MODULE:NAME")
    waits(d, 300)
    expect(page.locator("[data-upgrade=waiting]")).to_be_visible()
    expect(page.locator("[data-step=Decide]")).to_have_attribute("aria-current", "step")
    expect(page.locator("[data-question=many-removed]")).to_contain_text(
        "6 of 9 rows of totals would be removed"
    )
    expect(page.locator("[data-sink=totals] td")).to_have_text(
        ["totals", "0", "0", "6", "3", "0", "6 records"], use_inner_text=True
    )
    expect(page.get_by_text(re.compile(r"new filter \(.*test_upgrade.py:"))).to_be_visible()
    expect(page.get_by_text("~ recalculate sums")).to_be_visible()
    expect_accessible(opened)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Consent", exact=True)).to_be_disabled()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.type("agreed <b>")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("goes on within a second")).to_be_visible()
    d.upgrade(shop(300), Consent())
    expect(page.locator("[data-upgrade=done]")).to_be_visible()
    expect(page.locator("[data-step=Decide]")).to_contain_text("someone consented")
    expect(page.get_by_text("generation 2 is in force")).to_be_visible()
    expect(page.get_by_role("cell", name="agreed <b>")).to_be_visible()
    expect(page.get_by_text("tidegate rollback MODULE:NAME")).to_be_visible()
    expect(page.get_by_text("tidegate finish shop")).to_be_visible()
    assert d.rows(TOTALS) == {"k0": 0, "k1": 100, "k2": 200}
    waits(d, 100)
    expect(page.locator("[data-upgrade=waiting]")).to_be_visible()
    page.get_by_role("button", name="Cancel the upgrade…").click()
    dialog.get_by_label("Reason").fill("wrong limit")
    dialog.get_by_role("button", name="Cancel the upgrade").click()
    expect(page.locator("[data-upgrade=cancelled]")).to_be_visible()
    expect(page.locator("[data-step=Compare]")).to_have_attribute("data-state", "done")
    expect(page.locator("[data-step=Decide]")).to_contain_text("it was cancelled")
    expect(page.get_by_role("cell", name="wrong limit")).to_be_visible()
    page.get_by_role("link", name="Upgrades").first.click()
    expect(page.locator("[data-app=shop]")).to_contain_text("cancelled")


def expect_accessible(opened: Tab) -> None:
    if AXE.exists():
        assert problems(opened) == {}


def test_only_the_scope_upgrade_may_decide(
    browser: Browser, serving: Callable[..., AbstractContextManager[str]], config: Config, d: Driver
) -> None:
    waits(d, 300)
    token = add_token(config.folder / "tokens.json", "ops", Scope.OPERATE)
    with serving(tokens="tokens.json") as url, tab(browser, url, token=token) as opened:
        page = opened.live("/upgrades/shop")
        button = page.get_by_role("button", name="Consent…")
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(page.get_by_text('"ops" has the scope operate; this needs upgrade').first).to_be_visible()
        page.keyboard.press("c")
        button.click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)
