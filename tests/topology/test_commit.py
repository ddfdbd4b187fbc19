"""The commit of an app's code is recorded with its generation."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest

from tidegate.topology import commit as commit_module
from tidegate.topology.code import Code, CodeEntry, packed, unpacked
from tidegate.topology.commit import commit_of


def module_at(monkeypatch: pytest.MonkeyPatch, file: Path) -> str:
    made = ModuleType("an_app")
    made.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "an_app", made)
    commit_module._commit_of.cache_clear()
    return "an_app"


def git(folder: Path, *arguments: str) -> str:
    program = shutil.which("git")
    assert program is not None
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run([program, *own, *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_it_is_that_of_the_file_and_dirty_if_a_file_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "orders.py", tmp_path / "untracked.py"
    for one in (file, other):
        one.write_text("A = 1\n")
    assert commit_of(module_at(monkeypatch, file)) == "", "no repository"
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "orders.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    number = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "tag", "-a", "v1", "-m", "v1")
    assert commit_of(module_at(monkeypatch, file)) == number, "also with a tag"
    file.write_text("A = 2\n")
    assert commit_of("an_app") == number, "as it was when it was first asked for"
    assert commit_of(module_at(monkeypatch, other)) == "", "git does not know the file"
    assert commit_of(module_at(monkeypatch, file)) == f"{number}-dirty"
    assert Code("an_app").recorded().commit == f"{number}-dirty"
    assert Code("an_app").entry().commit == ""


def test_without_git_or_a_file_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of("no_such_module") == ""
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert commit_of(module_at(monkeypatch, Path(__file__))) == ""


def test_it_is_packed_with_the_code() -> None:
    assert unpacked(packed(CodeEntry(commit="abc-dirty"))).commit == "abc-dirty"


def test_a_record_of_before_has_none() -> None:
    assert unpacked(zlib.compress(b"[{},{}]")) == CodeEntry()
