"""Jars that are not the ones we know are refused, and two processes may ask for them at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.testing.broker import jars, tools


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two jars, and a file of hashes that agrees."""
    for name in ("one.jar", "two.jar"):
        (tmp_path / name).write_text(name)
    hashes = tmp_path / "hashes"
    hashes.write_text("".join(f"{digest}  {name}\n" for name, digest in jars.hashes_of(tmp_path).items()))
    monkeypatch.setattr(jars, "HASHES", hashes)
    jars.check(tmp_path)
    return tmp_path


def test_a_changed_jar_is_refused(folder: Path) -> None:
    (folder / "two.jar").write_text("another")
    with pytest.raises(ConfigError, match=r"two\.jar") as caught:
        jars.check(folder)
    assert caught.value.code == "wrong-jars"


def test_a_missing_jar_and_an_unknown_one_are_refused(folder: Path) -> None:
    (folder / "one.jar").rename(folder / "three.jar")
    with pytest.raises(ConfigError, match=r"one\.jar, three\.jar"):
        jars.check(folder)


def test_the_shipped_hashes_name_broker_streams_and_tools() -> None:
    names = {name.rpartition("-")[0] for name in jars.expected()}
    assert {"kafka_2.13", "kafka-streams", "kafka-tools", "kafka-clients"} <= names
    assert all(len(digest) == 64 for digest in jars.expected().values())


def test_a_folder_gets_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    final = tmp_path / "final"
    with pytest.raises(RuntimeError, match="half"), jars.new_folder(final) as fresh:
        (fresh / "a.jar").touch()
        raise RuntimeError("half")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ask", "code"), [(tools.java, "no-java"), (tools.javac, "no-java"), (tools.maven, "no-maven")]
)
def test_a_missing_tool_is_named(
    ask: object, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(ask)
    if code == "no-maven":
        tools.java()  # found and remembered before nothing can be found any more
    else:
        tools._of_java.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        ask()
    assert caught.value.code == code


@pytest.mark.slow
def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    tools._of_java.cache_clear()
    with pytest.raises(ConfigError, match="is 11") as caught:
        tools.java()
    assert caught.value.code == "old-java"


@pytest.mark.slow
@pytest.mark.usefixtures("maven")
def test_two_processes_fetch_the_jars_at_once_and_later_changes_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = [sys.executable, "-c", "from tidegate.testing.broker.jars import classpath; print(classpath())"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate(timeout=300)[0] for process in both)
    assert first == second
    assert "kafka-streams" in first
    (kept,) = [path for path in (tmp_path / "tidegate").iterdir() if path.is_dir()]
    next(kept.glob("kafka-clients-*.jar")).write_text("something else")
    with pytest.raises(ConfigError, match="kafka-clients"):
        jars.resolved(tmp_path / "tidegate")
