"""What executors import is what the driver has, or they refuse to run."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.spark.ship import check_fingerprint, fingerprint, zip_package


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "shipped_package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "steps.py").write_text("def double(n):\n    return 2 * n\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield folder
    sys.modules.pop("shipped_package", None)


def test_another_version_anywhere_in_the_package_is_refused(package: Path) -> None:
    sent = fingerprint("shipped_package:app")
    check_fingerprint("shipped_package:app", sent)
    (package / "inner" / "steps.py").write_text("def double(n):\n    return 2 * n + 1\n")
    with pytest.raises(ConfigError) as error:
        check_fingerprint("shipped_package:app", sent)
    assert error.value.code == "other-package"


def test_the_package_travels_whole_and_the_same_sources_give_the_same_file(
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
        names = [f"shipped_package/{name}" for name in ("__init__.py", "inner/steps.py", "order.avsc")]
        assert sorted(archive.namelist()) == names


def test_a_module_without_a_file_cannot_be_shipped() -> None:
    with pytest.raises(ConfigError) as error:
        fingerprint("nowhere_at_all:app")
    assert error.value.code == "no-such-app"
