"""Whether a store on disk may be continued: the decision, for every small case."""

from __future__ import annotations

from itertools import product

from tidegate.state.reuse import InLog, OnDisk, reason_to_discard

OFFSETS = range(5)
AGES = [-5, 0, 49, 50, 51, 100, 1000]
NOW = 10_000


def reason(*, offset: int, start: int, target: int, same_topic: bool = True, age: int = 0) -> str | None:
    """The decision for a changelog that keeps tombstones for 100 ms."""
    found = OnDisk(offset, "uid" if same_topic else "former uid", NOW - age)
    return reason_to_discard(found, InLog("uid", start, target, 100), NOW)


def test_a_store_is_continued_if_it_is_current_or_has_all_of_its_tail_before_it() -> None:
    cases = list(product(OFFSETS, OFFSETS, OFFSETS, (True, False), AGES))
    for offset, start, target, same_topic, age in cases:
        kept = reason(offset=offset, start=start, target=target, same_topic=same_topic, age=age) is None
        current = offset == target
        can_be_continued = start <= offset < target and age <= 50
        assert kept == (same_topic and (current or can_be_continued)), (
            offset,
            start,
            target,
            same_topic,
            age,
        )
    assert len(cases) == 1750


def test_a_recreated_changelog_is_not_compared_with_the_store() -> None:
    for offset, start, target, age in product(OFFSETS, OFFSETS, OFFSETS, AGES):
        why = reason(offset=offset, start=start, target=target, age=age, same_topic=False)
        assert why == "its changelog was recreated"


def test_i7_a_store_ahead_of_the_position_is_never_kept() -> None:
    for start, age in product(OFFSETS, AGES):
        why = reason(offset=4, start=start, target=3, age=age)
        assert why == "it is ahead of the log (4, committed is 3)"


def test_a_store_below_the_start_of_the_changelog_has_lost_a_piece_of_its_tail() -> None:
    for age in AGES:
        assert (
            reason(offset=1, start=2, target=4, age=age)
            == "its changelog now starts at 2, after its offset 1"
        )
    assert reason(offset=2, start=2, target=4) is None


def test_a_store_may_sleep_for_half_of_the_time_that_tombstones_are_kept() -> None:
    assert reason(offset=1, start=0, target=4, age=50) is None
    assert (
        reason(offset=1, start=0, target=4, age=51)
        == "it was idle for longer than tombstones are guaranteed to be kept"
    )


def test_a_current_store_missed_nothing_however_long_it_slept() -> None:
    assert reason(offset=4, start=0, target=4, age=1_000_000) is None
    assert reason(offset=0, start=3, target=0, age=1_000_000) is None


def test_a_clock_that_went_back_does_not_make_a_store_old() -> None:
    assert reason(offset=1, start=0, target=4, age=-1_000_000) is None
