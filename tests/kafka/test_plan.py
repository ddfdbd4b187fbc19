"""The plan of a changed app on Kafka: what it counts there, and that it leaves the broker as it was."""

from __future__ import annotations

from tests.kafka.conftest import OpenLog
from tests.upgrade.planned import ORDERS, only, planned, shop

from tidegate.clock import ManualClock
from tidegate.testing import Driver
from tidegate.upgrade.plan_text import plan_lines


def test_a_plan_counts_what_is_read_again_and_changes_nothing(open_own: OpenLog) -> None:
    log = open_own()
    with Driver(shop(), log=log, partitions=2, clock=ManualClock()) as driver:
        driver.send(ORDERS, "ada", 1, 2)
        driver.run()
        driver.gate("door").pause("bob")
        driver.run()
        driver.send(ORDERS, "bob", 3)
        driver.run()
    assert planned(log, shop()).state == "nothing"
    plan = planned(log, shop(test=True))
    assert (plan.state, plan.before, plan.after) == ("changes", 1, 2)
    [read] = only(plan).reads
    assert (read.topic, read.complete) == ("shop-door-admitted", True)
    assert read.records >= 2, "markers of transactions count, too"
    assert only(plan).gates[0].held == 1
    assert any("publish to totals what differs" in line for line in plan_lines(plan))
