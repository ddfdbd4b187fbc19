"""A crash at any step changes nothing, on Kafka: days of the shop with trouble at the steps that matter most.

Each day checks itself against plain dictionaries. The order between partitions is the broker's, so days are
not compared with each other. A crash leaves the writer's transaction open, as a dead process does.
"""

from __future__ import annotations

import pytest
from tests.kafka.conftest import OpenLog
from tests.runtime.shop import EAGER, LAZY, Trouble, day

from tidegate.errors import FencedError
from tidegate.state.manager import Limits
from tidegate.testing import Driver
from tidegate.testing.faults import ErrorKind


def crashes(*points: str, elsewhere: bool = False) -> Trouble:
    """One after the other, each in the life after the one before."""

    def trouble(driver: Driver) -> None:
        for point in points:
            driver.crash(at=point, elsewhere=elsewhere)

    return trouble


def fails(point: str, error: ErrorKind | Exception) -> Trouble:
    return lambda driver: driver.faults(point, error)


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [
        pytest.param(("commit.1", "commit.3"), ("commit.2", "commit.4"), LAZY, id="before the log has it"),
        pytest.param(("commit.5", "commit.6"), ("commit.6", "commit.7"), LAZY, id="around the log's commit"),
        pytest.param(("log.commit.1", "log.commit.7"), ("log.commit.8",), EAGER, id="in the log's commit"),
        pytest.param(("restore.1", "commit.7"), ("restore.3", "restore.4"), EAGER, id="while it is replayed"),
        pytest.param(("restore.2",), ("restore.5", "restore.6"), EAGER, id="while a replay is saved"),
    ],
)
def test_crashes_change_nothing(
    open_own: OpenLog, first: tuple[str, ...], second: tuple[str, ...], limits: Limits
) -> None:
    day(crashes(*first), crashes(*second), limits, open_own())


def test_crashes_with_a_move_after_each_change_nothing(open_own: OpenLog) -> None:
    moving = crashes("log.commit.8", "restore.4", "commit.6", elsewhere=True)
    day(crashes("commit.6", elsewhere=True), moving, EAGER, open_own())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            fails("log.commit.7", "unknown-commit"), fails("log.commit.8", "unknown-commit"), id="unknown"
        ),
        pytest.param(fails("commit.4", "exception"), fails("commit.6", "exception"), id="any exception"),
        pytest.param(fails("commit.7", "disk-full"), fails("restore.5", "disk-full"), id="disk full"),
        pytest.param(
            fails("log.commit.1", FencedError("x")), fails("commit.5", FencedError("x")), id="fence"
        ),
    ],
)
def test_an_error_in_one_slot_changes_nothing(open_own: OpenLog, first: Trouble, second: Trouble) -> None:
    day(first, second, EAGER, open_own())
