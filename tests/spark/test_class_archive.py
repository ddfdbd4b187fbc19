"""The archive of Spark's classes: written once, read by the next JVMs, never in the way of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.spark.class_archive import ClassArchive

JAVA = 'openjdk version "17.0.1"\nOpenJDK 64-Bit Server VM (build 17.0.1)'
OPTIONS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
SESSION = """
from tidegate.spark.session import end_session, start_session
session, _ = start_session("classes", {"master": "local[1]"}, stages=False, archive=True)
print(session.sparkContext.getConf().get("spark.driver.defaultJavaOptions"))
end_session(session)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in OPTIONS:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "tidegate"


def test_the_first_jvm_writes_it_and_the_next_reads_it(cache: Path) -> None:
    first = ClassArchive(JAVA)
    assert first.options(write=False) == ""
    written = first.options(write=True).split()[0].removeprefix("-XX:ArchiveClassesAtExit=")
    Path(written).write_bytes(b"classes")
    first.keep()
    assert [file.name for file in cache.iterdir()] == [first.path.name]
    for write in (True, False):
        assert f"-XX:SharedArchiveFile={first.path}" in ClassArchive(JAVA).options(write=write)
    assert ClassArchive(JAVA.replace("17", "21")).path != first.path


def test_what_a_jvm_left_that_did_not_end_by_itself_is_removed(cache: Path) -> None:
    archive = ClassArchive(JAVA)
    archive.options(write=True)
    half = archive.path.with_suffix(f".{os.getpid()}")
    half.write_bytes(b"half")
    archive.discard()
    assert not half.exists()
    gone = archive.path.with_suffix(".999999999")
    gone.write_bytes(b"half")
    assert ClassArchive(JAVA).options(write=True)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("value", ["-XX:SharedArchiveFile=mine.jsa", "-Xshare:off"])
def test_options_of_the_user_win(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert ClassArchive(JAVA).options(write=True) == ""


def test_options_for_spark_win_too() -> None:
    assert ClassArchive(JAVA, "-XX:SharedArchiveFile=mine.jsa").options(write=True) == ""
    assert ClassArchive(JAVA, "-Xmx2g").options(write=True) != ""


def test_a_cache_that_cannot_be_written_is_not_used(cache: Path) -> None:
    cache.write_text("a file where the folder would be")
    assert ClassArchive(JAVA).options(write=True) == ""


def test_another_kind_of_jvm_is_left_alone() -> None:
    assert ClassArchive('openjdk version "17"\nEclipse OpenJ9 VM').options(write=True) == ""


@pytest.mark.slow
def test_a_session_writes_it_when_it_ends(cache: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, check=True)
    assert "ArchiveClassesAtExit" in done.stdout
    [file] = cache.iterdir()
    assert file.suffix == ".jsa"
    assert file.stat().st_size > 10_000_000
