"""A crash at any step changes nothing, on Kafka: days of the shop with trouble at the steps that matter most.

Each day checks itself against plain dictionaries. The order between partitions is the broker's, so days are
not compared with each other. A crash in the log's commit leaves the transaction open, as a dead process does;
test_sigkill.py has real ones.
"""

from __future__ import annotations

import pytest
from tests.kafka.conftest import OpenLog
from tests.runtime.shop import EAGER, LAZY, Trouble, day

from tidegate.state.manager import Limits
from tidegate.testing import Driver
from tidegate.testing.faults import ErrorKind

SLOTS_COMMIT = 3
"""The first two commits of a start are the driver's: its epoch, and its plan."""
FIRST_COMMIT = 4
"""At the very first start there is one more, of the manifest."""


def crashes(*places: tuple[str, int], elsewhere: bool = False) -> Trouble:
    """At points and arrivals there: one after the other, each in the life after the one before."""

    def trouble(driver: Driver) -> None:
        for point, arrival in places:
            driver.crash(at=point, arrival=arrival, elsewhere=elsewhere)

    return trouble


def fails(point: str, error: ErrorKind, arrival: int = 1) -> Trouble:
    return lambda driver: driver.faults(point, error, arrival=arrival)


BEFORE = (crashes(("commit.1", 1), ("commit.3", 2)), crashes(("commit.2", 1), ("commit.4", 1)), LAZY)
AROUND = (
    crashes(("commit.5", 1), ("commit.6", 1)),
    crashes(("commit.6", 2), ("restore.4", 1), ("commit.7", 1), elsewhere=True),
    LAZY,
)
LOG = (
    crashes(("log.commit.7", 2), ("log.commit.7", SLOTS_COMMIT)),
    crashes(("log.commit.8", SLOTS_COMMIT), ("log.commit.1", SLOTS_COMMIT)),
    EAGER,
)
RESTORE = (
    crashes(("restore.1", 1), ("restore.2", 2)),
    crashes(("restore.3", 1), ("restore.4", 2), ("restore.5", 1), ("restore.6", 1)),
    EAGER,
)


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [BEFORE, AROUND, LOG, RESTORE],
    ids=[
        "before the log has it",
        "around the log's commit, with moves",
        "in the log's commit",
        "in a restore",
    ],
)
def test_crashes_change_nothing(open_own: OpenLog, first: Trouble, second: Trouble, limits: Limits) -> None:
    day(first, second, limits, open_own())


def test_a_commit_whose_result_is_unknown_counts_once_or_not_at_all(open_own: OpenLog) -> None:
    not_there = fails("log.commit.7", "unknown-commit", FIRST_COMMIT)
    there = fails("log.commit.8", "unknown-commit", SLOTS_COMMIT)
    day(not_there, there, EAGER, open_own())


def test_an_error_in_one_slot_changes_nothing(open_own: OpenLog) -> None:
    day(fails("commit.4", "exception", arrival=3), fails("restore.5", "disk-full"), EAGER, open_own())
