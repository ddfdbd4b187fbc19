"""Take docs/images/dashboard-*.png: run the real demo, and open its dashboard while a customer is paused.

.venv/bin/python -m scripts.dashboard_pictures

1 start the demo; 2 open the overview, and measure how long after the first totals it shows a rate; 3 when a
customer is paused, take the pictures. Chromium has to be installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "images"
SECONDS = "90"
LARGEST = 150_000
PICTURES = {
    "overview": ("/", "[data-app=orders]", 700),
    "topology": ("/topology/orders", "svg [data-step]", 360),
    "gate": ("/gates/orders-gate/key?key=ada&app=orders", "[data-column=held] li", 800),
}


def events(folder: str) -> Iterator[dict[str, Any]]:
    """What the demo reports, until it ends."""
    command = [sys.executable, "-m", "tidegate", "demo", "--json", "--seconds", SECONDS, "--folder", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            yield json.loads(line)


def shows_a_rate(page: Page) -> None:
    """Wait until the overview shows that orders are processed."""
    rate = page.locator("[data-app=orders]").get_by_text(re.compile(r"^[1-9][0-9.,]*/s$"))
    expect(rate.first).to_be_visible(timeout=60_000)


def take(page: Page, url: str) -> None:
    for name, (path, shown, height) in PICTURES.items():
        page.set_viewport_size({"width": 1280, "height": height})
        page.goto(f"{url}/ui{path}")
        expect(page.locator(shown).first).to_be_visible(timeout=30_000)
        page.wait_for_timeout(4000)
        picture = FOLDER / f"dashboard-{name}.png"
        page.screenshot(path=picture)
        size = picture.stat().st_size
        print(f"{picture}: {size:,} bytes")
        assert size < LARGEST, f"{picture} has more than {LARGEST:,} bytes"


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        closing(
            playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
        ) as browser,
    ):
        page = browser.new_page(color_scheme="light", reduced_motion="reduce")
        url = ""
        for event in events(f"{folder}/demo"):
            if event["event"] == "serving":
                url = event["url"]
                page.goto(event["dashboard"])
            elif event["event"] == "flowing":
                began = time.monotonic()
                shows_a_rate(page)
                print(f"the overview was live {time.monotonic() - began:.1f} s after the first totals")
            elif event["event"] == "paused":
                take(page, url)


if __name__ == "__main__":
    main()
