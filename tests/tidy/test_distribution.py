"""Tests are shared out among processes so that what they share is started once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.distribution import (
    BROWSER,
    HEAVY,
    LONGEST,
    PROGRAMS,
    SPARK,
    longest_units,
    pytest_xdist_auto_num_workers,
)
from tests.needs import missing_for
from tests.shared_broker import ADDRESS, BrokerService, SharedKafka, broker_for

ROOT = Path(__file__).parents[2]

HOOKS = """
import os, pytest
from tests.distribution import *
from tests.distribution import in_order

def pytest_collection_modifyitems(items):
    items[:] = in_order(items)

@pytest.fixture(scope="session")
def spark():
    return None

@pytest.fixture(autouse=True)
def _notes_its_process(request):
    with open("ran", "a") as file:
        file.write(f"{request.node.nodeid} {os.environ.get('PYTEST_XDIST_WORKER', 'alone')}\\n")
"""
SHARING = """
import pytest, time

@pytest.fixture(scope="module")
def cluster():
    return None

@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_on_a_cluster(cluster, number):
    time.sleep(0.05)
"""
ALONE = """
import pytest, time

@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_slow(number):
    time.sleep(0.2)
"""
QUICK = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_quick(number):
    pass
"""
ON_SPARK = """
def test_one(spark):
    pass

def test_two(spark):
    pass
"""


def run(folder: Path, *options: str) -> dict[str, set[str]]:
    """File -> the processes that its tests ran in."""
    files = {
        "conftest.py": HOOKS,
        "test_sharing.py": SHARING,
        "test_alone.py": ALONE,
        "test_quick.py": QUICK,
        "test_spark_a.py": ON_SPARK,
        "test_spark_b.py": ON_SPARK,
        "pytest.ini": "[pytest]\nmarkers = slow: takes long\n",
    }
    for name, content in files.items():
        (folder / name).write_text(content)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "36 passed" in ran.stdout, ran.stdout + ran.stderr
    found: dict[str, set[str]] = {}
    for line in (folder / "ran").read_text().splitlines():
        found.setdefault(line.partition("::")[0], set()).add(line.rpartition(" ")[2])
    return found


@pytest.mark.slow
def test_what_is_shared_stays_in_one_process_and_the_rest_is_spread(tmp_path: Path) -> None:
    found = run(tmp_path, "-n", "2")
    assert len(found["test_sharing.py"]) == 1
    assert len(found["test_quick.py"]) == 1
    assert len(found["test_spark_a.py"] | found["test_spark_b.py"]) == 1
    assert len(found["test_alone.py"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-p", "no:xdist"]], ids=["one process", "without xdist"])
def test_one_process_runs_them_too(tmp_path: Path, options: list[str]) -> None:
    assert set().union(*run(tmp_path, *options).values()) == {"alone"}


def test_the_broker_is_started_once_and_every_process_gets_its_address(tmp_path: Path) -> None:
    started: list[Path] = []

    def start(folder: Path) -> SharedKafka:
        started.append(folder)
        return SharedKafka("127.0.0.1:19092", [17])

    service = BrokerService(tmp_path, start)
    try:
        assert started == [], "nobody needs it yet"
        for _ in range(3):
            with broker_for({ADDRESS: service.address}, tmp_path) as kafka:
                assert (kafka.bootstrap, kafka.pids) == ("127.0.0.1:19092", [17])
                assert kafka.url == "kafka://127.0.0.1:19092"
        assert started == [tmp_path / "kafka"]
    finally:
        service.close()


def test_a_broker_that_does_not_start_fails_the_tests_that_need_it(tmp_path: Path) -> None:
    def start(folder: Path) -> SharedKafka:
        raise RuntimeError("no room on the disk")

    service = BrokerService(tmp_path, start)
    try:
        with (
            pytest.raises(AssertionError, match="did not start: RuntimeError: no room on the disk"),
            broker_for({ADDRESS: service.address}, tmp_path),
        ):
            pass
    finally:
        service.close()


def test_there_are_processes_for_each_core() -> None:
    assert 1 <= pytest_xdist_auto_num_workers() <= 2 * (os.cpu_count() or 1)


def test_the_longest_units_are_still_there() -> None:
    """One that was renamed would be started late, and the whole run would wait for it."""
    assert {unit for unit in longest_units() if not unit.startswith("tests/")} == {SPARK, PROGRAMS, BROWSER}
    assert [beginning for beginning in HEAVY if not list(ROOT.glob(f"{beginning}*"))] == []
    for unit in longest_units():
        file, _, test = unit.partition("::")
        if unit.startswith("tests/"):
            assert (ROOT / file).exists(), f"{LONGEST.name} names {unit}"
            name = test.partition("[")[0].rpartition("::")[2]
            assert not test or f"def {name}(" in (ROOT / file).read_text(), f"{LONGEST.name} names {unit}"


def test_a_test_that_needs_nothing_is_not_skipped(request: pytest.FixtureRequest) -> None:
    assert missing_for(request.node) is None
