"""Starts of an app behind what a dead driver left open."""

from __future__ import annotations

from tests.runtime.fleet import Fleet

from tidegate.clock import SystemClock
from tidegate.log import names
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.topics.control import ROLE, EpochEntry, write_control
from tidegate.types import TopicPartition


def test_a_start_does_not_wait_for_a_driver_that_died_while_it_took_over(fleet: Fleet) -> None:
    """Its transaction hides what lies behind it until its writer is opened again; an app that is known is
    known without that."""
    log = fleet.prepared()
    control = TopicPartition(names.control("wordcount"), 0)
    dead = log.writer(names.driver_id("wordcount", ROLE))
    write_control(dead, "wordcount", {f"epoch/{ROLE}": EpochEntry(1)}, 5)
    dead.flush([control])
    prepare(fleet.app().build(), log, SystemClock(), partitions=3)
    ends = (log.ends([control])[control], log.ends([control], committed=False)[control])
    assert ends[0] < ends[1], "it is open still: nobody waited until the broker ended it"
    fleet.catch_up()
    assert fleet.counts() == {"up": 1}
    dead.close()
