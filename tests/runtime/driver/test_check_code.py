"""An executor with other code than the driver is refused by name, with both."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidegate import ConfigError, UpgradeError
from tidegate.clock import ManualClock
from tidegate.load import load_app
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.check_code import check_code
from tidegate.runtime.driver.prepare import attach, prepare
from tidegate.topology.graph import Topology

APP = """
from check_helpers import doubled
from tidegate import App, TableTopic, Topic

app = App("checked")
app.stream(Topic("in", int)).map(doubled).sum("sums", int).to(TableTopic("out", int))
"""
HELPERS = "def doubled(value: int) -> int:\n    return value * {}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "check_app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    _forget()


def _forget() -> None:
    for name in ("check_app", "check_helpers"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def imported(project: Path, helpers: str) -> Topology:
    """The app, as a process imports it that finds these helpers."""
    (project / "check_helpers.py").write_text(helpers)
    _forget()
    return load_app("check_app:app").build()


def test_other_code_outside_of_the_shipped_package_is_refused_with_both(project: Path) -> None:
    with closing(SqliteLog()) as log:
        prepare(imported(project, HELPERS.format(2)), log, ManualClock())
        same = imported(project, "# a comment\n" + HELPERS.format(2))
        check_code(same, log, attach(same, log, ManualClock()).manifest)
        other = imported(project, "\n" + HELPERS.format(3))
        with pytest.raises(ConfigError) as caught:
            check_code(other, log, attach(other, log, ManualClock()).manifest)
    assert caught.value.code == "other-code"
    assert "another version of check_helpers:doubled than the driver" in caught.value.message
    assert "check_helpers.py:2 here" in caught.value.message
    assert "check_helpers.py:1 there" in caught.value.message


def test_the_package_of_an_app_counts_although_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builds of one version are two apps: an image may be built again without a new number."""
    installed = tmp_path / "site-packages"
    package = installed / "check_installed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "app.py").write_text(APP.replace("check_helpers", "check_installed.helpers"))
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with closing(SqliteLog()) as log:
        for factor in (2, 2, 3):
            (package / "helpers.py").write_text(HELPERS.format(factor))
            for name in [name for name in sys.modules if name.startswith("check_installed")]:
                del sys.modules[name]
            importlib.invalidate_caches()
            topology = load_app("check_installed.app:app").build()
            if factor == 2:
                prepare(topology, log, ManualClock())
        with pytest.raises(UpgradeError, match=r"changed-app.*doubled"):
            prepare(topology, log, ManualClock())
