"""Without an extra everything else works, and what needs it names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = """
import sys
for blocked in {blocked!r}:
    sys.modules[blocked] = None  # as if it were not installed
from tidegate.cli.main import main
sys.argv = ["tidegate", *{command!r}]
main()
"""

SINK = ["sink", "postgresql://127.0.0.1:1/none", "--model", "none"]
KAFKA = "kafka://127.0.0.1:1"

APP = """
from tidegate import App, TableTopic, Topic
app = App("counting")
app.stream(Topic("lines", str)).count("counted").to(TableTopic("counts", int))
"""


def ran(folder: Path, blocked: list[str], *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that cannot import some packages."""
    program = MAIN.format(blocked=blocked, command=command)
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(APP)
    (tmp_path / "tidegate.toml").write_text('app = "counting:app"\nlog = "sqlite:///log.db"\n')
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocked", "command", "code", "extra"),
    [
        ("pyspark", ["run"], "no-pyspark", "tidegate[spark]"),
        (
            "confluent_kafka",
            ["topics", "list", "--log", KAFKA],
            "no-kafka",
            "tidegate[kafka]",
        ),
        ("fastapi", ["serve"], "no-server", "tidegate[server]"),
        ("uvicorn", ["serve"], "no-server", "tidegate[server]"),
        ("sqlalchemy", SINK, "no-database-client", "tidegate[postgres]"),
        ("psycopg", SINK, "no-database-client", "tidegate[postgres]"),
    ],
    ids=["spark", "kafka", "fastapi", "uvicorn", "sqlalchemy", "psycopg"],
)
def test_a_command_whose_extra_is_missing_names_it(
    folder: Path, blocked: str, command: list[str], code: str, extra: str
) -> None:
    assert ran(folder, [blocked], "topics", "create", "lines").returncode == 0
    reported = ran(folder, [blocked], *command)
    assert (reported.returncode, reported.stdout) == (1, "")
    assert f"[{code}]" in reported.stderr
    assert f"pip install {extra}" in reported.stderr
    assert "Traceback" not in reported.stderr


@pytest.mark.slow
def test_doctor_without_spark_names_the_extra_and_looks_at_the_rest(folder: Path) -> None:
    reported = ran(folder, ["pyspark"], "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(reported.stdout.splitlines()[0])["checks"]}
    assert checks["Spark"]["code"] == "no-pyspark"
    assert checks["Spark"]["hint"] == "pip install tidegate[spark]"
    assert checks["disk"]["ok"]
    assert reported.returncode == 1
