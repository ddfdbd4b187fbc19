"""The pages with `tidegate run`, with a Spark session in Python, or with a Kafka broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import is_slow, needs_kafka, pages, takes_session
from tests.docs.walk import walk

from tidegate.testing.broker import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SLOW = [page for page in pages() if is_slow(page)]
WITH_SESSION = [page for page in SLOW if takes_session(page)]
WITH_BROKER = [page for page in SLOW if needs_kafka(page)]
ALONE = sorted(set(SLOW) - set(WITH_SESSION) - set(WITH_BROKER))


@pytest.mark.parametrize("page", ALONE)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path) -> None:
    assert walk(page, tmp_path) > 0


@pytest.mark.parametrize("page", WITH_SESSION)
def test_a_page_with_a_session_does_what_it_shows(page: str, tmp_path: Path, spark: SparkSession) -> None:
    assert walk(page, tmp_path, things={"spark": spark}) > 0


@pytest.mark.parametrize("page", WITH_BROKER)
def test_a_page_with_a_broker_does_what_it_shows(page: str, tmp_path: Path, kafka: KafkaCluster) -> None:
    assert walk(page, tmp_path, kafka=kafka.bootstrap) > 0


def test_no_page_needs_both_a_session_and_a_broker() -> None:
    assert set(WITH_SESSION) & set(WITH_BROKER) == set()
