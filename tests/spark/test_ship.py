"""What executors import is what the driver has, or they refuse to run."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.spark import ship
from tidegate.spark.ship import fingerprint, import_version, zip_package


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "shipped_package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "steps.py").write_text("def double(n):\n    return 2 * n\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ship, "_imported", {})  # as in a new process
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith("shipped_package")]:
        del sys.modules[name]


def test_another_version_anywhere_in_the_package_is_refused(package: Path) -> None:
    sent = fingerprint("shipped_package:app")
    import_version("shipped_package:app", sent)
    (package / "inner" / "steps.py").write_text("def double(n):\n    return 2 * n + 1\n")
    with pytest.raises(ConfigError) as error:
        import_version("shipped_package:app", sent)
    assert error.value.code == "other-package"


def test_a_process_that_holds_an_older_version_imports_the_one_that_was_sent(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older and newer, from the zip files that a session keeps on the import path, in either order."""
    old = zip_package("shipped_package:app", tmp_path)
    sent = {2: fingerprint("shipped_package:app")}
    (package / "inner" / "steps.py").write_text("def double(n):\n    return 3 * n\n")
    new = zip_package("shipped_package:app", tmp_path)
    sent[3] = fingerprint("shipped_package:app")
    package.rename(tmp_path / "elsewhere")
    for factor in (2, 3, 2):
        for shipped in (old, new):
            monkeypatch.syspath_prepend(str(shipped))
        import_version("shipped_package:app", sent[factor])
        assert importlib.import_module("shipped_package.inner.steps").double(1) == factor


def test_an_edit_in_the_working_folder_does_not_reach_a_run_that_was_started_before(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped, sent = zip_package("shipped_package:app", tmp_path), fingerprint("shipped_package:app")
    (package / "inner" / "steps.py").write_text("def double(n):\n    return 3 * n\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(shipped)])  # after the working folder
    import_version("shipped_package:app", sent)
    assert importlib.import_module("shipped_package.inner.steps").double(1) == 2


def test_a_refused_version_leaves_no_modules_of_an_older_one_behind(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the older version, sent again, would count as imported."""
    shipped, sent = zip_package("shipped_package:app", tmp_path), fingerprint("shipped_package:app")
    monkeypatch.syspath_prepend(str(shipped))
    import_version("shipped_package:app", sent)
    (package / "inner" / "steps.py").write_text("def double(n):\n    return 3 * n\n")
    with pytest.raises(ConfigError, match="other-package"):
        import_version("shipped_package:app", "0" * 64)
    assert importlib.import_module("shipped_package.inner.steps").double(1) == 3  # as a task of Python would
    monkeypatch.syspath_prepend(str(shipped))
    import_version("shipped_package:app", sent)
    assert importlib.import_module("shipped_package.inner.steps").double(1) == 2


def test_an_app_of_the_package_tidegate_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="module of your own"):
        fingerprint("tidegate.cli.demo.orders:app")


def test_the_package_is_shipped_whole_and_the_same_sources_make_the_same_file(
    package: Path, tmp_path: Path
) -> None:
    (package / "data.txt").write_text("not code")
    (package / "order.avsc").write_text("{}")
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    one, two = (zip_package("shipped_package:app", folder) for folder in (first, second))
    assert (one.name, one.read_bytes()) == (two.name, two.read_bytes())
    with zipfile.ZipFile(one) as archive:
        inside = ("", "__init__.py", "inner/", "inner/steps.py", "order.avsc")
        names = [f"shipped_package/{name}" for name in inside]
        assert sorted(archive.namelist()) == names


def test_a_module_without_a_file_cannot_be_shipped() -> None:
    with pytest.raises(ConfigError) as error:
        fingerprint("nowhere_at_all:app")
    assert error.value.code == "no-such-app"
