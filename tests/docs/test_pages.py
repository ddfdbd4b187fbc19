"""Every Python block and every command of the documents is run: the pages without JVM and broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import blocks, is_slow, pages
from tests.docs.walk import walk

QUICK = [page for page in pages() if not is_slow(page) and any(block.is_run for block in blocks(page))]


@pytest.mark.parametrize("page", QUICK)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path) -> None:
    assert walk(page, tmp_path) > 0
