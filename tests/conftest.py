"""What holds for all tests, and what several folders of them share."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings
from tests import time_limit
from tests.class_archives import use_spark_archive
from tests.distribution import (
    in_order,
    pytest_collection_finish,
    pytest_configure_node,
    pytest_unconfigure,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)
from tests.needs import missing_for
from tests.repetitions import mark_soak
from tests.shared_broker import broker_for
from tests.time_limit import pytest_runtest_teardown, pytest_timeout_set_timer

from tidegate.fingerprint import project
from tidegate.state.open_here import open_here
from tidegate.testing.broker import KafkaCluster

__all__ = [
    "pytest_collection_finish",
    "pytest_configure_node",
    "pytest_runtest_teardown",
    "pytest_timeout_set_timer",
    "pytest_unconfigure",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
]

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
ROOM_BYTES = 1 << 30
"""Of memory, for the folders of drivers."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else processes that tests start ignore SIGINT

# Processes that tests start would compile all of tidegate again, each for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

use_spark_archive()

# By default Python looks through all imported modules and collected tests for garbage every few seconds: an
# eighth of the CPU time of collecting tests, and a thirtieth of that of running them.
gc.set_threshold(10_000, 10, 100)

# Else each command that a test runs in its own process builds all commands again, with all their parameters.
pytest.MonkeyPatch().setattr("typer.testing._get_command", functools.cache(typer.main.get_command))

settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")  # a machine that is slow is no fault of the code


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Behind those of the folders, which mark what is slow."""
    mark_soak(items)
    time_limit.pytest_collection_modifyitems(config, items)
    if hasattr(config, "workerinput"):
        items[:] = in_order(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here. All in this line, so that the summary has one line for each reason."""
    if reason := missing_for(item):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def maven() -> None:
    """For tests that fetch with Maven: skipped where there is none."""


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """For tests that start brokers or run Kafka's tools: skipped where there are no jars."""


@pytest.fixture(scope="session")
def java_programs() -> None:
    """For tests that run Java programs of ours beside Kafka's jars: skipped where none can be compiled."""


@pytest.fixture(scope="session")
def compiled() -> Any:
    """The module with compiled loops for Kafka's records: skipped where it is not installed."""
    from tidegate.log.kafka.bulk import bulk

    return bulk().module


@pytest.fixture(scope="session")
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_jars: None
) -> Iterator[KafkaCluster]:
    """One real broker for the whole run, started at its first use. Others use it too, and at the same time:
    name topics, groups and transactional ids for your test, and do not kill it."""
    given = getattr(request.config, "workerinput", None)
    with broker_for(given, tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="session", autouse=True)
def _drivers_in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make the folders of drivers, thousands of them, in memory. Those of pytest, where brokers write, are
    chosen first and stay on disk."""
    tmp_path_factory.getbasetemp()
    get_temp_dir()  # of multiprocessing, which removes it later than this
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield
        return
    before = tempfile.tempdir
    made = tempfile.mkdtemp(prefix="tidegate-tests-", dir=MEMORY)
    Path(made).chmod(0o755)  # for tests without rights of their own
    tempfile.tempdir = made
    yield
    tempfile.tempdir = before
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def suite_apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the suite out of the projects that a test writes and changes: else each version is looked at
    among 600 modules, for a second of CPU."""
    owns = project.Project.owns
    suite = f"{Path(__file__).parent}/"
    monkeypatch.setattr(
        project.Project,
        "owns",
        lambda self, name, file: not file.startswith(suite) and owns(self, name, file),
    )
    project._known.clear()
    yield
    project._known.clear()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: a kill takes nothing from it, and syncing it costs nothing."""
    made = Path(tempfile.mkdtemp(prefix="tidegate-state-", dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    """State that is forgotten while it is open stays locked, and would never be closed."""
    before = set(open_here())
    yield
    assert set(open_here()) <= before
