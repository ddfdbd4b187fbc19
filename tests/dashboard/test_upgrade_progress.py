"""The page of an upgrade while it runs: steps, records, rate and time left move as the server reports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.dashboard.browser import measured
from tests.dashboard.conftest import Open
from tests.dashboard.test_tasks import get
from tests.dashboard.upgrading import ORDERS, TOTALS, shop
from tests.waiting import HANG_SECONDS

from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

pytestmark = pytest.mark.slow
RECORDS = 14_400
WATCH = """
window.seen = [];
new MutationObserver(() => {
  const steps = [...document.querySelectorAll("[data-step]")].map(one => one.dataset.state).join(" ");
  const meter = document.querySelector("[data-step=Recalculate] [role=progressbar]");
  const text = meter === null ? "" : meter.nextElementSibling.innerText;
  const one = [steps, meter === null ? -1 : Number(meter.ariaValueNow), text];
  if (JSON.stringify(one) !== JSON.stringify(window.seen.at(-1))) window.seen.push(one);
}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
"""


def test_a_running_upgrade_moves_through_its_steps_with_rate_and_time_left(
    open_tab: Open, url: str, log: SqliteLog, tmp_path: Path
) -> None:
    with Driver(shop(), partitions=1, log=log) as d:
        for number in range(9):
            d.send(ORDERS, f"k{number}", *range(RECORDS // 9))
        d.run()
        before = d.rows(TOTALS)
    page = open_tab().live("/upgrades/shop")
    expect(page.locator("[data-state=empty]")).to_be_visible()
    page.evaluate(WATCH)
    answers: list[dict[str, Any]] = []
    command = [sys.executable, "-m", "tests.dashboard.upgrading", str(tmp_path)]
    with subprocess.Popen(command) as process:
        try:
            expect(page.locator("[data-upgrade=recalculating]")).to_be_visible()
            left = re.compile(r"records, [0-9.,]+/s, (about|at least) .* left")
            expect(page.get_by_text(left)).to_be_visible()
            while process.poll() is None:
                progress = get(url, "/upgrades")["apps"][0]["progress"]
                answers += [] if progress is None else [progress]
                page.wait_for_timeout(300)
            assert process.wait(HANG_SECONDS) == 0
        finally:
            process.kill()
    expect(page.locator("[data-upgrade=done]")).to_be_visible()
    for step in ("Recalculate", "Compare", "Switch and publish"):
        expect(page.locator(f"[data-step='{step}']")).to_have_attribute("data-state", "done")
    expect(page.locator("[data-sink=totals] td").nth(2)).to_have_text("9")
    assert {key: value + RECORDS // 9 for key, value in before.items()} == rows_of(log)

    seen = page.evaluate("window.seen")
    shown = [done for steps, done, _ in seen if steps.startswith("now ") and done >= 0]
    measured.info("recalculated records that the page showed: %s", shown)
    assert shown == sorted(shown)
    assert len({done for done in shown if 0 < done <= RECORDS}) >= 3
    reported = {one["done"] for one in answers}
    assert len(reported & set(shown)) >= 2, "what the page shows is what the server reports"
    assert max(one["to_do"] for one in answers) == RECORDS
    rates = [rate_of(text) for _, _, text in seen if "/s" in text]
    assert all(0 < rate < 2_000 for rate in rates[1:]), "one record takes at least 0.8 ms"
    assert len({text for _, _, text in seen if "left" in text}) >= 2
    assert len({steps for steps, _, _ in seen}) >= 2


def rate_of(text: str) -> float:
    found = re.search(r"([0-9.,]+)(K?)/s", text)
    assert found is not None, text
    return float(found[1].replace(",", "")) * (1000 if found[2] else 1)


def rows_of(log: SqliteLog) -> dict[str, int]:
    with Driver(shop(), partitions=1, log=log) as d:
        return dict(d.rows(TOTALS))
