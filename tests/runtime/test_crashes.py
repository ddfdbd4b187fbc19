"""A crash at any step changes nothing: committed outputs, tables and stores are those of a calm day.

The day (shop.py) has two subtopologies, three partitions and two slots. It checks itself against plain
dictionaries; here it is compared with the calm one too, outputs as sequences per partition.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.runtime.shop import (
    EAGER,
    LAZY,
    PARTITIONS,
    SLOTS,
    Shop,
    Trouble,
    assert_right,
    calm,
    day,
    first_round,
    second_round,
    shop,
    third_round,
)

from tidegate.testing import Commit, Driver, Outcome
from tidegate.testing.faults import ErrorKind

pytestmark = pytest.mark.slow
COMMIT = [f"commit.{step}" for step in range(1, 9)]
LOG_COMMIT = [f"log.commit.{step}" for step in (1, 3, 4, 5, 6, 7, 8)]
"""Step 2 is for large transactions: it has a test of its own."""
FIRST_START = ["restore.1", "restore.2", "restore.6"]
"""With nothing to restore."""
RESTORE = [f"restore.{step}" for step in range(1, 7)]
NOTE = "n" * 700_000


@pytest.fixture(scope="module")
def calm_day() -> Outcome:
    return day()


@pytest.fixture(scope="module")
def arrivals() -> list[Counter[str]]:
    """How often each step is reached in the first round, and in the second."""
    counts: list[Counter[str]] = []
    before: Counter[str] = Counter()
    with Driver(shop(), partitions=PARTITIONS, slots=SLOTS, limits=EAGER) as driver:
        story = Shop(driver)
        for play in (first_round, second_round):
            play(story)
            driver.run()
            counts.append(driver.reached - before)
            before = driver.reached
            driver.move()
    return counts


def crash(point: str, arrival: int) -> Trouble:
    return lambda driver: driver.crash(at=point, arrival=arrival)


@pytest.mark.parametrize("point", [*COMMIT, *FIRST_START, *LOG_COMMIT])
def test_a_crash_at_any_step_of_the_first_run_and_of_a_later_one_changes_nothing(
    point: str, calm_day: Outcome, arrivals: list[Counter[str]]
) -> None:
    first, later = (crash(point, counted[point]) for counted in arrivals)
    assert day(first=crash(point, 1), second=later, limits=EAGER) == calm_day
    assert day(first=first, second=crash(point, 1), limits=LAZY) == calm_day


@pytest.mark.parametrize("point", ["restore.3", "restore.4", "restore.5"])
def test_a_crash_while_changelogs_are_replayed_changes_nothing(
    point: str, calm_day: Outcome, arrivals: list[Counter[str]]
) -> None:
    for arrival in {1, arrivals[1][point]}:
        assert day(second=crash(point, arrival), limits=EAGER) == calm_day, f"arrival {arrival}"


@pytest.mark.slow
@pytest.mark.parametrize("point", [*COMMIT, *RESTORE, *LOG_COMMIT])
def test_a_crash_at_every_single_arrival_changes_nothing(
    point: str, calm_day: Outcome, arrivals: list[Counter[str]]
) -> None:
    in_first, in_later = (counted[point] for counted in arrivals)
    for arrival in range(1, max(in_first, in_later) + 1):
        first = crash(point, min(arrival, in_first)) if in_first else calm
        later = crash(point, min(arrival, in_later))
        assert day(first, later, EAGER) == calm_day, f"{point}, arrival {arrival}"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Commit.LOG, Commit.LOG_COMMITTED),
        (Commit.LOG_COMMITTED, Commit.LOG_COMMITTED),
        (Commit.LOG_COMMITTED, "restore.3"),
        (Commit.STORE, "restore.4"),
        ("restore.4", "restore.4"),
        ("restore.5", "restore.6"),
        ("restore.6", Commit.POSITIONS),
        ("log.commit.7", "log.commit.8"),
        ("log.commit.8", "restore.2"),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same host", "another host"])
def test_two_crashes_in_a_row_change_nothing(one: str, two: str, elsewhere: bool, calm_day: Outcome) -> None:
    def trouble(driver: Driver) -> None:
        driver.crash(at=one, elsewhere=elsewhere)
        driver.crash(at=two)

    assert day(second=trouble, limits=EAGER) == calm_day


@pytest.mark.parametrize("point", [Commit.LOG, Commit.LOG_COMMITTED, Commit.STORE, "log.commit.8"])
def test_two_crashes_with_a_move_between_and_a_way_back_to_old_state_change_nothing(
    point: str, calm_day: Outcome
) -> None:
    with Driver(shop(), partitions=PARTITIONS, slots=SLOTS) as driver:
        story = Shop(driver)
        first_round(story)
        driver.crash(at=point)
        driver.run()
        driver.move("other")
        second_round(story)
        driver.crash(at=point, arrival=2)
        driver.run()
        driver.move("host-0")
        third_round(story)
        driver.crash(at="restore.4")
        driver.run()
        assert_right(driver, story)
        assert driver.outcome() == calm_day


@pytest.mark.parametrize(
    ("point", "error"),
    [
        *((point, "exception") for point in [*COMMIT, *RESTORE]),
        *((point, "disk-full") for point in [Commit.STORE, "restore.5", *LOG_COMMIT]),
        ("log.commit.7", "unknown-commit"),
        ("log.commit.8", "unknown-commit"),
    ],
)
def test_an_error_at_any_step_of_one_slot_changes_nothing(
    point: str, error: ErrorKind, calm_day: Outcome
) -> None:
    assert day(second=lambda driver: driver.faults(point, error), limits=EAGER) == calm_day


def test_a_crash_while_a_large_transaction_is_written_in_pieces_changes_nothing() -> None:
    for arrival in (1, 5):
        with Driver(shop(), partitions=PARTITIONS) as driver:
            story = Shop(driver)
            first_round(story)
            story.buy("ada", "dia", "ada", "cem", "ada", note=NOTE)
            driver.crash(at="log.commit.2", arrival=arrival)
            driver.run()
            assert_right(driver, story)


def test_the_day_itself_places_sales_in_all_partitions(calm_day: Outcome) -> None:
    assert all(len(partition) > 2 for topic in calm_day.topics.values() for partition in topic)
    assert all(rows for store in calm_day.stores.values() for rows in store.values())
