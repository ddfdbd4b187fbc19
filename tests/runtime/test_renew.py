"""A driver that plans again while its writer is not its own any more."""

from __future__ import annotations

import pytest
from tests.runtime.fleet import Fleet

from tidegate import names
from tidegate.clock import SystemClock
from tidegate.errors import FencedError
from tidegate.runtime.control import read_control
from tidegate.runtime.takeover import ROLE, take_over

CLOCK = SystemClock()


def test_a_writer_that_was_lost_to_nobody_is_regained(fleet: Fleet) -> None:
    """As after idle days on Kafka, when the broker has forgotten the id: refused, and no epoch is higher."""
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    log.writer(names.driver_id("wordcount", ROLE)).close()
    renewed = claim.renew(log, CLOCK)
    assert renewed.epoch == claim.epoch + 1
    assert read_control(log, "wordcount").epoch(ROLE) == renewed.epoch
    renewed.begin_attempt(0, 1, CLOCK.now())
    renewed.close()


def test_a_writer_that_another_driver_has_stays_lost(fleet: Fleet) -> None:
    log = fleet.prepared()
    claim = take_over(log, "wordcount", 1, CLOCK)
    other = take_over(log, "wordcount", 1, CLOCK)
    with pytest.raises(FencedError):
        claim.renew(log, CLOCK)
    assert read_control(log, "wordcount").epoch(ROLE) == other.epoch
    other.begin_attempt(0, 1, CLOCK.now())
    claim.close()
    other.close()
