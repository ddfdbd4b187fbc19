"""What tests of the projects of npm share."""

from __future__ import annotations

import json
import re

import pytest
from scripts.npm import ROOT, NpmProject


def needs_packages(project: NpmProject) -> None:
    """Skip the test if the packages are not installed. `make test` installs them, or fails."""
    if not project.is_installed:
        pytest.skip(f"needs the packages of {project.folder.relative_to(ROOT)}. Do: make setup-tests")


def check_lock_file(project: NpmProject) -> None:
    """It has names, versions and hashes only, and each package that another one names as optional: without
    them `npm ci` refuses the file."""
    text = (project.folder / "package-lock.json").read_text()
    assert not re.search(r"https?://|\"resolved\"", text)
    packages = json.loads(text)["packages"]
    assert all(one["integrity"].startswith("sha512-") for name, one in packages.items() if name)
    named = {name for one in packages.values() for name in one.get("optionalDependencies", {})}
    assert [name for name in named if f"node_modules/{name}" not in packages] == []
