"""The script that the server serves is what clients/typescript makes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from scripts import build_client
from tests.client.node import CLIENT, ROOT

FOLDER = ROOT / "clients" / "typescript"


@pytest.mark.slow
def test_the_same_sources_make_the_same_script(tmp_path: Path) -> None:
    """Else: make client. Checks the types, too."""
    if not build_client.is_installed():
        pytest.skip("npm could not fetch the packages of clients/typescript. Do: make setup-tests")
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(FOLDER, tmp_path, ignore=ignored, dirs_exist_ok=True)
    (tmp_path / "node_modules").symlink_to(build_client.MODULES)
    assert build_client.built(tmp_path).read_bytes() == CLIENT.read_bytes()
    assert (tmp_path / "dist" / "index.d.ts").exists()


def test_the_lock_file_has_names_versions_and_hashes_only() -> None:
    text = (FOLDER / "package-lock.json").read_text()
    assert not re.search(r"https?://|\"resolved\"", text)
    packages = json.loads(text)["packages"]
    assert all(one["integrity"].startswith("sha512-") for name, one in packages.items() if name)


def test_the_client_has_no_dependencies() -> None:
    package = json.loads((FOLDER / "package.json").read_text())
    assert "dependencies" not in package
    assert not re.search(r"^\s*import\b|\brequire\(", CLIENT.read_text(), re.MULTILINE)
