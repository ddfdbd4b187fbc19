"""What holds for every page: what is not run is counted, links lead somewhere, imports are public."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.docs.console import commands
from tests.docs.not_run import NOT_RUN
from tests.docs.pages import LANGUAGES, ROOT, blocks, pages

PUBLIC = {
    "tidegate",
    "tidegate.client",
    "tidegate.models",
    "tidegate.stores",
    "tidegate.testing",
    "tidegate.testing.broker",
}
"""The packages that users import from. What an example needs is exported by one of them."""
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that headings have in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", one.replace("`", "").lower()).strip().replace(" ", "-") for one in headings
    }


def links(page: str) -> list[str]:
    found = (one or other for one, other in _LINK.findall(prose(page)))
    return [link for link in found if not link.startswith(("http://", "https://", "mailto:"))]


def imported(text: str, place: str) -> list[str]:
    """The modules of tidegate that a text imports."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text, place)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return [name for name in found if name.split(".")[0] == "tidegate"]


def test_what_is_not_run_is_known_by_page_and_reason() -> None:
    found = {
        page: dict(
            Counter(block.directives["not run"] for block in blocks(page) if "not run" in block.directives)
        )
        for page in pages()
    }
    assert {page: reasons for page, reasons in found.items() if reasons} == NOT_RUN
    assert all(reason for reasons in NOT_RUN.values() for reason in reasons)


@pytest.mark.parametrize("page", pages())
def test_every_block_names_a_language_that_the_test_knows(page: str) -> None:
    assert {block.language for block in blocks(page) if block.line and block.text} <= LANGUAGES


@pytest.mark.parametrize("page", pages())
def test_no_command_and_no_code_hides_outside_of_fences(page: str) -> None:
    lines = prose(page).splitlines()
    hidden = [
        line
        for above, line in zip(["", *lines], lines, strict=False)
        if line.startswith("    ") and not above.strip() and not line.strip().startswith(("-", "*", "|"))
    ]
    assert hidden == []
    assert [line for line in lines if line.strip().startswith("$ ")] == []
    texts = [block for block in blocks(page) if block.language in {"text", "http"}]
    assert [block.place for block in texts if re.search(r"^\$ tidegate", block.text, re.MULTILINE)] == []


@pytest.mark.parametrize("page", pages())
def test_console_blocks_can_be_read(page: str) -> None:
    for block in blocks(page):
        if block.language == "console":
            assert list(commands(block))


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_files_and_headings_that_are_there(page: str) -> None:
    missing = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("page", [page for page in pages() if not page.startswith("docs/decisions/")])
def test_source_files_that_a_page_names_are_there(page: str) -> None:
    """From the root of the tree, from src/tidegate or from tests; or a file that the page itself writes."""
    written = {block.title for block in blocks(page)}
    named = set(re.findall(r"`((?:[\w-]+/)*\w+\.py)(?:::[\w:]+)?`", prose(page))) - written
    places = [ROOT, ROOT / "src" / "tidegate", ROOT / "tests"]
    found = {name for name in named for place in places if (place / name).is_file()}
    neighbours = {name for name in named if "/" not in name and any((ROOT / "src").rglob(name))}
    assert named - found - neighbours == set()


@pytest.mark.parametrize("page", pages())
def test_python_of_a_page_imports_public_names_only(page: str) -> None:
    found = [
        f"{block.place} imports {module}"
        for block in blocks(page)
        if block.language == "python" and "raises" not in block.directives
        for module in imported(block.text, block.place)
        if module not in PUBLIC
    ]
    assert found == []


def test_examples_import_public_names_only() -> None:
    files = sorted((ROOT / "examples").rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in files
        for module in imported(file.read_text(), file.name)
        if module not in PUBLIC
    ]
    assert found == []


def test_every_page_is_on_the_map() -> None:
    """docs/index.md links to all of them but single decisions, which are a folder of their own."""
    listed = {((ROOT / "docs") / link.partition("#")[0]).resolve() for link in links("docs/index.md")}
    expected = {ROOT / page for page in pages() if not page.startswith("docs/decisions/")}
    assert (
        sorted(path.relative_to(ROOT).as_posix() for path in expected - listed - {ROOT / "docs/index.md"})
        == []
    )
