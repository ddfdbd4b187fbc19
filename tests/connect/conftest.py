"""A connection to a log in memory, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.connect.orders import NOW

import tidegate
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def connection(clock: ManualClock) -> Iterator[Connection]:
    with tidegate.connect("sqlite://", clock=clock) as connection:
        yield connection
