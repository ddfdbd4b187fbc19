"""The files that the server serves under /ui/ are what dashboard/ makes."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from scripts.build_dashboard import PROJECT, SERVED, built, files
from tests.npm_projects import check_lock_file, needs_packages

LARGEST_COMPRESSED = 300_000
LARGEST_FIRST_ROUTE = 120_000


@pytest.mark.slow
def test_the_same_sources_make_the_same_files(tmp_path: Path) -> None:
    """Else: make dashboard."""
    needs_packages(PROJECT)
    made = built(PROJECT.copied_to(tmp_path))
    assert files(made) == files(SERVED)
    assert [path for path in files(made) if (made / path).read_bytes() != (SERVED / path).read_bytes()] == []


@pytest.mark.slow
def test_types_and_markup_are_right() -> None:
    needs_packages(PROJECT)
    PROJECT.run("check")


def test_the_lock_file_is_whole_and_names_no_registry() -> None:
    check_lock_file(PROJECT)


def test_the_files_are_small() -> None:
    sizes = {path.as_posix(): compressed(path) for path in files(SERVED)}
    assert sum(sizes.values()) < LARGEST_COMPRESSED
    assert sum(compressed(path) for path in first_route()) < LARGEST_FIRST_ROUTE


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (SERVED / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", page)
    assert re.findall(r'(?:src|href)="(?!/ui/assets/)', page) == []


def test_nothing_makes_elements_from_text() -> None:
    """Else a record could: contents are shown as text only."""
    sources = [path for path in (PROJECT.folder / "src").rglob("*") if path.suffix in {".svelte", ".ts"}]
    assert sources
    found = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|\{@html|document\.write|\beval\(")
    assert [path.name for path in sources if found.search(path.read_text())] == []


def compressed(path: Path) -> int:
    return len(gzip.compress((SERVED / path).read_bytes(), 9))


def first_route() -> set[Path]:
    """The page, and what it loads before anything is clicked."""
    found: set[Path] = set()
    waiting = [Path("index.html")]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            text = (SERVED / path).read_text()
            names = re.findall(r'/ui/assets/([\w.-]+)"', text) if path.suffix == ".html" else imported(text)
            waiting += [Path("assets") / name for name in names]
    return found


def imported(text: str) -> list[str]:
    """The files that a script imports when it is loaded."""
    return re.findall(r"(?:from|import)\s*[\"'`]\./([\w.-]+)[\"'`]", text)
