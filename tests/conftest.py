"""What holds for all tests, and what several folders of them share."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.time_limit import (
    pytest_collection_modifyitems,
    pytest_runtest_teardown,
    pytest_timeout_set_timer,
)

from tidegate.state.environment import open_here
from tidegate.testing.broker import KafkaCluster

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_teardown", "pytest_timeout_set_timer"]

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else what tests start hears no Ctrl-C

settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")  # a machine that is slow is no fault of the code


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One real broker for the whole run, started at its first use. Others use it too: name topics, groups and
    transactional ids for your test, and do not kill it."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: a kill takes nothing from it, and syncing it costs nothing."""
    made = Path(tempfile.mkdtemp(prefix="tidegate-state-", dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    """State that is forgotten while it is open stays locked, and would be closed by nobody."""
    before = set(open_here())
    yield
    assert set(open_here()) <= before
