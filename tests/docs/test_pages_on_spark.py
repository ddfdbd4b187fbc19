"""The pages with `tidegate run`, with a Spark session in Python, or with a Kafka broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import is_slow, needs_kafka, pages, takes_session
from tests.docs.walk import walk

pytestmark = pytest.mark.slow
SLOW = [page for page in pages() if is_slow(page)]


@pytest.mark.parametrize("page", SLOW)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    things = {"spark": request.getfixturevalue("spark")} if takes_session(page) else {}
    kafka = request.getfixturevalue("kafka").bootstrap if needs_kafka(page) else ""
    assert walk(page, tmp_path, kafka=kafka, things=things) > 0
