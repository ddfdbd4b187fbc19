"""One local Spark session for all tests that need one, and apps that run on it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.warm_daemon import CONF
from tests.waiting import HANG_SECONDS

import tidegate
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.errors import LogError, TidegateError
from tidegate.load import load_app
from tidegate.runtime.driver.coordinator import Patience
from tidegate.spark.running import Running
from tidegate.spark.session import end_session, start_session

PATIENT = Patience(failures=100, back_off_seconds=0.05, longest_back_off_seconds=0.5)
"""For slots that are killed again and again."""


WITHOUT_JVM = {"test_python_workers.py", "test_ship.py", "test_worker.py"}
"""Files of tests that need neither a session nor a cluster: `make check` runs those of them that are
not marked slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts a JVM is slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.name not in WITHOUT_JVM:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of ours, with room for two slots and two tokens more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, while it starts
        session, _ = start_session("tests", {"master": "local[2]", "conf": CONF}, stages=False)
    yield session
    end_session(session)


@pytest.fixture
def log(config: Config) -> Iterator[Connection]:
    with connected(config) as opened:
        yield opened


def connected(config: Config) -> Connection:
    """A connection to the log. A broker on a busy machine may take longer to answer than `connect` waits."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        try:
            return tidegate.connect(config=config)
        except LogError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise


@pytest.fixture
def start(spark: SparkSession, config: Config) -> Iterator[Callable[..., Running]]:
    """Starts apps by name, and stops at the end what a failed test left running."""
    started: list[Running] = []

    def start(name: str, *, slots: int = 2, patience: Patience = PATIENT, **options: Any) -> Running:
        app = load_app(name, config.settings)
        started.append(Running(app, name, spark, config, slots=slots, patience=patience, **options))
        return started[-1]

    yield start
    for run in started:
        run.stop()
        with suppress(TidegateError):
            run.wait(30)
