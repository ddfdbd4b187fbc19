"""One local Spark session for all tests that need one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.spark.session import start_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts a JVM is slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of ours, with room for two slots and two tokens more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, while it starts
        session, _ = start_session("tests", {"master": "local[2]"})
    yield session
    session.stop()
