"""The fixture `driver`: makes drivers, and closes them at the end of the test.

def test_orders_count(driver: DriverFactory) -> None:
    d = driver(app, partitions=3)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from tidegate.app import App
    from tidegate.testing.driver import Driver


class DriverFactory(Protocol):
    """The type of the fixture: called with the arguments of `Driver`."""

    def __call__(self, app: App, *, partitions: int = 1, slots: int = 1, **more: Any) -> Driver: ...


@pytest.fixture
def driver() -> Iterator[DriverFactory]:
    """Make a driver, as many as needed; all are closed when the test ends, the last one first."""
    from tidegate.testing.driver import Driver

    with ExitStack() as stack:

        def make(app: App, *, partitions: int = 1, slots: int = 1, **more: Any) -> Driver:
            return stack.enter_context(Driver(app, partitions=partitions, slots=slots, **more))

        yield make
