"""Rates and ages from samples of offsets, and the history of charts."""

from __future__ import annotations

import random

import pytest

from tidegate.server.meters import KEPT_SECONDS, Age, EndHistory, Meter
from tidegate.server.summary_history import STEP_MS, STEPS, SummaryHistory


def test_a_rate_is_that_of_the_last_seconds() -> None:
    meter = Meter()
    assert meter.rate == 0
    for half in range(20):
        meter.take(half / 2, 100 * half)
    assert meter.rate == 200
    for half in range(20, 40):
        meter.take(half / 2, 1900)
    assert meter.rate == 0


def test_records_that_come_in_steps_have_a_steady_rate() -> None:
    """Apps commit up to seconds apart."""
    meter = Meter()
    rates = []
    for half in range(80):
        meter.take(half / 2, 1000 * (half // 5))  # 1,000 records every 2.5 s
        rates.append(meter.rate)
    assert all(rate == pytest.approx(400, rel=0.1) for rate in rates[40:])


def test_a_counter_that_falls_starts_again() -> None:
    meter = Meter()
    meter.take(0.0, 1000)
    meter.take(1.0, 10)
    assert meter.rate == 0
    meter.take(2.0, 30)
    assert meter.rate == 20


def test_the_age_of_a_record_is_the_time_since_the_end_rose_above_it() -> None:
    history = EndHistory()
    for second in range(60):
        history.take(float(second), 100 * second)
    assert history.age(59.0, 5900) == Age(0.0), "nothing is there yet"
    assert history.age(59.0, 5800).seconds == pytest.approx(1.0, abs=0.1)
    assert history.age(59.0, 5350).seconds == pytest.approx(5.5, abs=0.1)
    assert history.age(59.0, 1000).seconds == pytest.approx(49.0, abs=3.0), "older samples are thinned out"


def test_what_was_there_before_the_first_sample_is_at_least_as_old() -> None:
    history = EndHistory()
    history.take(10.0, 500)
    history.take(12.0, 600)
    assert history.age(14.0, 499) == Age(4.0, at_least=True)
    assert not history.age(14.0, 500).at_least


def test_a_topic_that_was_recreated_has_a_new_history() -> None:
    history = EndHistory()
    history.take(1.0, 500)
    history.take(2.0, 3)
    assert history.age(4.0, 1) == Age(2.0, at_least=True)


def test_a_history_of_ends_stays_small_and_right() -> None:
    history, now, end, seed = EndHistory(), 0.0, 0, random.Random(7)
    truth: list[tuple[float, int]] = []
    while now < 3 * KEPT_SECONDS:
        now += 0.5
        end += seed.choice((0, 0, 1, 50))
        history.take(now, end)
        truth.append((now, end))
    assert len(history._times) < 450
    for at, known in truth[-1700:-1:37]:
        age = history.age(now, known)
        rose = next((time for time, total in truth if total > known), now)
        assert age.seconds == pytest.approx(now - rose, abs=11.0), at


def test_a_history_keeps_fifteen_minutes() -> None:
    history = SummaryHistory()
    for step in range(3 * STEPS):
        assert history.is_due(step * STEP_MS)
        history.take(step * STEP_MS, {("topics", "a", "rate"): float(step)})
        assert not history.is_due(step * STEP_MS + STEP_MS // 2)
    found = history.as_json()
    assert len(found["times"]) == STEPS
    assert found["topics"]["a"]["rate"] == [float(step) for step in range(2 * STEPS, 3 * STEPS)]


def test_a_hole_is_shown_as_one() -> None:
    history = SummaryHistory()
    name = ("apps", "shop", "lag")
    history.take(0, {name: 1.0})
    history.take(STEP_MS, {name: 2.0})
    history.take(60 * STEP_MS, {name: 3.0})
    found = history.as_json()
    assert found["times"] == [0, STEP_MS, 2 * STEP_MS, 60 * STEP_MS]
    assert found["apps"]["shop"]["lag"] == [1.0, 2.0, None, 3.0]
    history.take(1000 * STEP_MS, {name: 4.0})
    found = history.as_json()
    assert (found["times"], found["apps"]["shop"]["lag"]) == ([1000 * STEP_MS], [4.0])


def test_what_appears_later_has_no_values_before_and_what_is_gone_is_dropped() -> None:
    history = SummaryHistory()
    history.take(0, {("topics", "a", "rate"): 1.0})
    history.take(STEP_MS, {("topics", "b", "rate"): 2.0})
    found = history.as_json()["topics"]
    assert found == {"a": {"rate": [1.0, None]}, "b": {"rate": [None, 2.0]}}
    for step in range(2, STEPS + 2):
        history.take(step * STEP_MS, {("topics", "b", "rate"): 2.0})
    assert "a" not in history.as_json()["topics"]


def test_a_clock_that_is_set_back_starts_a_new_history() -> None:
    history = SummaryHistory()
    history.take(10 * STEP_MS, {("topics", "a", "rate"): 1.0})
    assert history.is_due(STEP_MS)
    history.take(STEP_MS, {("topics", "a", "rate"): 2.0})
    assert history.as_json()["times"] == [STEP_MS]
