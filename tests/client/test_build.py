"""The script that the server serves is what clients/typescript makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripts.build_client import PROJECT, built
from tests.client.node import CLIENT
from tests.npm_projects import check_lock_file, needs_packages


@pytest.mark.slow
def test_the_same_sources_make_the_same_script(tmp_path: Path) -> None:
    """Else: make client. Checks the types, too."""
    needs_packages(PROJECT)
    assert built(PROJECT.copied_to(tmp_path)).read_bytes() == CLIENT.read_bytes()
    assert (tmp_path / "dist" / "index.d.ts").exists()


def test_the_lock_file_is_whole_and_names_no_registry() -> None:
    check_lock_file(PROJECT)


def test_the_client_has_no_dependencies() -> None:
    package = json.loads((PROJECT.folder / "package.json").read_text())
    assert "dependencies" not in package
    assert not re.search(r"^\s*import\b|\brequire\(", CLIENT.read_text(), re.MULTILINE)
