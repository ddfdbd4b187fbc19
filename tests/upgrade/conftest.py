"""A log for the tests of plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tidegate.log.sqlite.log import SqliteLog


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    with closing(SqliteLog()) as made:
        yield made
