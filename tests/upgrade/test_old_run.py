"""The run of the old version before an upgrade: what it left is a question where events would be lost."""

from __future__ import annotations

import pytest
from tests.upgrade.planned import planned

from tidegate import App, TableTopic, Topic
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.unread import Unread
from tidegate.testing import Driver
from tidegate.upgrade.old_run import stop_old, undrained

ORDERS, EVENTS = Topic("orders", int), Topic("events", int)
COUNTS, MORE = TableTopic("counts", int), TableTopic("more", int)


def shop(*, events: bool, limit: int = 10) -> App:
    app = App("shop")
    orders = app.stream(ORDERS).filter(lambda cents: cents < limit)
    grouped = orders.group_by("by-cents", lambda cents: f"c{cents}")
    if events:
        grouped.to(EVENTS)
    grouped.count("counts").to(COUNTS)
    app.stream(ORDERS).count("others").to(MORE)
    return app


@pytest.mark.parametrize(("events", "expected"), [(True, ["undrained"]), (False, [])])
def test_records_of_a_run_that_died_are_a_question_if_they_lead_to_events(
    events: bool, expected: list[str]
) -> None:
    with Driver(shop(events=events), partitions=2) as d:
        d.send(ORDERS, "a", 1, 2)
        d.run()
        d.stop()
        known = find_manifest(d.log, "shop")
        assert known is not None
        [topic] = known.purged()
        left = [Unread(topic, 0, 3, 5), Unread(topic, 1, 0, 1)]
        plan = planned(d.log, shop(events=events, limit=5))
        changed = {one.id for one in plan.components if one.action != "keep"}
        found = list(undrained(d.log, known, changed, left))
        assert [question.code for question in found] == expected
        assert all("3 records" in question.text for question in found)
        assert list(undrained(d.log, known, set(), left)) == []


def test_an_app_that_was_stopped_in_order_left_nothing() -> None:
    with Driver(shop(events=True), partitions=2) as d:
        d.send(ORDERS, "a", 1, 2)
        d.run()
        d.stop()
        known = find_manifest(d.log, "shop")
        assert known is not None
        stopped = stop_old(d.log, d.clock, 1.0)(known, planned(d.log, shop(events=True, limit=5)))
        assert stopped.questions == []
