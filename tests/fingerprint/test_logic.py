"""`tidegate.logic`: declare what cannot be seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fingerprint.folder import fingerprint

from tidegate.errors import ConfigError

CLOCK = """
import time
from tidegate import logic

@logic(version="1")
def root(value):
    return helper(value)

def helper(value):
    return value + time.time()
"""


def test_a_declared_version_is_part_of_the_digest_and_settles_what_is_unseen(tmp_path: Path) -> None:
    bare = fingerprint(tmp_path / "bare", {"main.py": CLOCK.replace('@logic(version="1")', "")})
    first = fingerprint(tmp_path / "first", {"main.py": CLOCK})
    same = fingerprint(tmp_path / "same", {"main.py": CLOCK})
    second = fingerprint(tmp_path / "second", {"main.py": CLOCK.replace('"1"', '"2"')})
    assert [(one.what, one.name) for one in bare.unseen] == [("clock", "time.time")]
    assert (first.unseen, first.version, second.version) == ([], "1", "2")
    assert first.digest == same.digest != second.digest


def test_a_helper_with_a_version_settles_only_what_it_calls(tmp_path: Path) -> None:
    text = """
import os, time
from tidegate import logic

def root(value):
    return helper(value) + len(os.environ)

@logic(version="7")
def helper(value):
    return value + time.time()
"""
    found = fingerprint(tmp_path / "one", {"main.py": text})
    other = fingerprint(tmp_path / "two", {"main.py": text.replace('"7"', '"8"')})
    assert [one.name for one in found.unseen] == ["os.environ"]
    assert found.digest != other.digest


def test_files_that_are_read_count_by_content(tmp_path: Path) -> None:
    text = """
from pathlib import Path
from tidegate import logic

@logic(reads=["rates.csv"])
def root(value):
    return value * int((Path(__file__).parent / "rates.csv").read_text())
"""
    first = fingerprint(tmp_path / "1", {"rates.csv": "5", "main.py": text})
    same = fingerprint(tmp_path / "2", {"rates.csv": "5", "main.py": text})
    other = fingerprint(tmp_path / "3", {"rates.csv": "6", "main.py": text})
    assert first.unseen == []
    assert "file rates.csv" in first.values
    assert first.digest == same.digest != other.digest


def test_a_file_that_does_not_exist_is_refused_at_import(tmp_path: Path) -> None:
    text = 'from tidegate import logic\n\n@logic(reads=["gone.csv"])\ndef root(value):\n    return value\n'
    with pytest.raises(ConfigError, match=r"root reads 'gone.csv'") as caught:
        fingerprint(tmp_path, {"main.py": text})
    assert caught.value.code == "missing-file"
