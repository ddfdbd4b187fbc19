"""What the testing tools refuse has a code of its own: those that no other test is about."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gate.app import gated

from tidegate.errors import ConfigError, LogError
from tidegate.testing import Driver
from tidegate.testing.broker import jars
from tidegate.testing.broker.java import compiled
from tidegate.testing.broker.program import Program


def test_the_first_arrival_is_1() -> None:
    with Driver(gated()) as driver, pytest.raises(ConfigError) as caught:
        driver.crash(at="commit.5", arrival=0)
    assert caught.value.code == "bad-arrival"


@pytest.mark.parametrize(("at", "error"), [("commit.5", "earthquake"), ("commit.5", "commit-unknown")])
def test_an_error_that_cannot_be_there_is_refused(at: str, error: Any) -> None:
    with Driver(gated()) as driver, pytest.raises(ConfigError) as caught:
        driver.faults(at, error=error)
    assert caught.value.code == "bad-fault"


def test_a_program_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    code = "import sys; print('{\"event\": 1}'); sys.exit('out of luck')"
    program = Program("teller", [sys.executable, "-c", code], tmp_path)
    with pytest.raises(LogError, match="ended early:\nout of luck") as caught:
        program.wait_for(lambda event: event["event"] == 2)
    program.kill()
    assert (caught.value.code, caught.value.retryable) == ("program-failed", True)


def test_jars_that_maven_cannot_fetch_are_reported_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho the repository is on holiday; exit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="on holiday") as caught:
        jars.fetch(tmp_path / "jars")
    assert caught.value.code == "no-jars"


@pytest.mark.slow
@pytest.mark.usefixtures("java_programs")
def test_java_that_does_not_compile_is_reported_with_the_compilers_output(tmp_path: Path) -> None:
    source = tmp_path / "Wrong.java"
    source.write_text("class Wrong { int one = true; }\n")
    with pytest.raises(ConfigError, match="boolean cannot be converted to int") as caught:
        compiled([source])
    assert caught.value.code == "java-source"
