"""Upgrades in the browser: the plan, the rows that differ, consent, cancelling, and the way back."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from playwright.sync_api import Browser, expect
from tests.dashboard.browser import AXE, Tab, tab
from tests.dashboard.conftest import Open
from tests.dashboard.test_accessibility import problems
from tests.upgrade.test_upgrade import ORDERS, TOTALS, shop
from tests.upgrade.test_upgrade_refused import sent

from tidegate import App, TableTopic, UpgradeError
from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.topics.decisions import DecidedBy
from tidegate.server.routes.upgrades import write_consent
from tidegate.server.tokens import Scope, add_token
from tidegate.testing import Driver
from tidegate.topology.commit import commit_of
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
        ["totals", "0", "0", "6", "3", "0", "6 rows"], use_inner_text=True
    )
    rows = page.locator("[data-differs=removed]")
    expect(rows).to_have_count(6)
    expect(rows.filter(has_text="k8").locator("td")).to_have_text(["k8", "removed", "800", "no row"])
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
    expect(page.locator("[data-differs]")).to_have_count(0)
    expect(page.get_by_text("These rows were published")).to_be_visible()
    back = page.locator("[data-rollback='1']")
    expect(back).to_contain_text("It runs that code, which a server does not have")
    expect(back.get_by_text("tidegate rollback MODULE:NAME")).to_be_visible()
    if commit := commit_of(shop.__module__).removesuffix("-dirty"):
        expect(back.get_by_text(f"git checkout {commit}")).to_be_visible()
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


def test_a_consent_while_the_server_was_away_is_shown_when_it_is_back(
    browser: Browser, serving: Callable[..., AbstractContextManager[str]], log: SqliteLog, d: Driver
) -> None:
    """Frames have no consents: the page reads them again because it was disconnected."""
    waits(d, 300)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tab(browser, f"http://127.0.0.1:{port}") as opened:
        with serving(port=port):
            page = opened.live("/upgrades/shop")
            expect(page.get_by_role("button", name="Consent…")).to_be_visible()
        expect(page.locator("[data-connection=stale]")).to_be_visible()
        by = DecidedBy("ada", "by phone", "cli")
        write_consent(log, "shop", Consent(yes=True, removals=frozenset({"totals"}), by=by), 1)
        with serving(port=port):
            expect(page.get_by_text("Allowed by ada")).to_be_visible()
            expect(page.get_by_role("button", name="Consent…")).to_have_count(0)


def numbers(version: int) -> App:
    """The second version adds one to each number, leaves out every third, and has two more tables' rows."""
    app = App("numbers")
    orders = app.stream(ORDERS)
    kept = orders.filter(lambda number: (number % 3 != 0 or version == 0) and (number != 7 or version == 1))
    kept.map(lambda number: number + version).to(TableTopic("shown", int))
    orders.filter(lambda number: number == 7 and version == 1).map(lambda _: "x" * 5000).to(
        TableTopic("texts", str)
    )
    return app


def test_rows_that_differ_are_paged_by_kind_with_exact_numbers_and_cut_values(
    open_tab: Open, log: SqliteLog
) -> None:
    large = 2**63 - 100
    with Driver(numbers(0), partitions=2, log=log) as d:
        for number in range(60):
            d.send(ORDERS, f"k{number:02}", large + number)
        d.send(ORDERS, "odd <b>\u202e", 7)
        d.run()
        with pytest.raises(UpgradeError):
            d.upgrade(numbers(1), Consent())
        opened = open_tab()
        page = opened.live("/upgrades/numbers")
        rows = page.locator("[data-differs]")
        expect(rows).to_have_count(25)
        seen: dict[str, list[str]] = {}
        for number in range(1, 4):
            expect(page.get_by_text(f"page {number}, by partition and key")).to_be_visible()
            for row in rows.all():
                key, *cells = row.locator("td").all_inner_texts()
                seen[key] = [cell.strip() for cell in cells]
            if number < 3:
                page.get_by_role("button", name="Next page").click()
        expect(page.get_by_role("button", name="Next page")).to_be_disabled()
        assert seen == {
            "odd <b>\\u202e": ["new", "no row", "8"],
            **{
                f"k{number:02}": ["removed", str(large + number), "no row"]
                if (large + number) % 3 == 0
                else ["changed", str(large + number), str(large + number + 1)]
                for number in range(60)
            },
        }
        page.get_by_role("button", name="Page before").click()
        page.get_by_role("button", name="New 1", exact=True).click()
        expect(rows).to_have_count(1)
        assert page.url.endswith("?kind=new")
        page.locator("[data-sink=texts]").get_by_role("button", name="1 row").click()
        expect(page.locator("[data-rows=texts] [data-differs]")).to_contain_text(
            re.compile("xxx….*the first 1,000 B of 4.9 KiB")
        )
        page.reload()
        expect(page.locator("[data-rows=texts] [data-differs]")).to_have_count(1)
        expect_accessible(opened)


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
