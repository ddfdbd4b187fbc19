"""The run of the old version before an upgrade: what it left is a question where events would be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.upgrade.planned import planned

from tidegate import App, Context, Record, TableTopic, Topic
from tidegate.log.records import Row, to_batch
from tidegate.runtime.output.time_only import MARK
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.unread import task_positions, unread
from tidegate.testing import Driver
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition
from tidegate.upgrade.old_run import stop_old, undrained

ORDERS, EVENTS = Topic("orders", int), Topic("events", int)
COUNTS, MORE = TableTopic("counts", int), TableTopic("more", int)


class Late:
    """A step with timers."""

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.forward(record)


def shop(*, events: bool, limit: int = 10, timers: bool = False) -> App:
    app = App("shop")
    orders = app.stream(ORDERS).filter(lambda cents: cents < limit)
    grouped = orders.group_by("by-cents", lambda cents: f"c{cents}")
    if events:
        (grouped.process("late", Late) if timers else grouped).to(EVENTS)
    grouped.count("counts").to(COUNTS)
    app.stream(ORDERS).count("others").to(MORE)
    return app


@contextmanager
def stopped(app: App, *rows: Row) -> Iterator[tuple[Driver, Manifest]]:
    """An app that has ended, with these records of its internal topic that it has not processed."""
    with Driver(app, partitions=2) as d:
        d.send(ORDERS, "a", 1, 2)
        d.run()
        d.stop()
        known = find_manifest(d.log, "shop")
        assert known is not None
        [topic] = known.purged()
        for row in rows:
            d.log.append(TopicPartition(topic, 0), to_batch([row]))
        yield d, known


RECORD = Row(b"c1", b"\x80\x00\x00\x00\x00\x00\x00\x01", 5)
TIME_ONLY = Row(None, None, 5, [("tidegate.owner", b""), ("tidegate.origin", b""), MARK])


@pytest.mark.parametrize(
    ("events", "timers", "rows", "count"),
    [
        (True, False, [RECORD, TIME_ONLY, RECORD], 2),
        (False, False, [RECORD, RECORD], 0),
        (True, False, [TIME_ONLY], 0),
        (True, True, [TIME_ONLY], 1),
    ],
    ids=["lead to events", "lead to rows only", "time", "time for a step with timers"],
)
def test_records_that_an_old_version_left_are_a_question_if_they_lead_to_events(
    events: bool, timers: bool, rows: list[Row], count: int
) -> None:
    with stopped(shop(events=events, timers=timers), *rows) as (d, known):
        plan = planned(d.log, shop(events=events, limit=5, timers=timers))
        changed = {one.id for one in plan.components if one.action != "keep"}
        left = unread(d.log, known, task_positions(d.log, known), known.purged())
        assert bool(left) == bool(rows)
        questions = list(undrained(d.log, known, changed, left))
        assert [question.code for question in questions] == (["undrained"] if count else [])
        assert all(f"with {count} records" in question.text for question in questions)
        assert list(undrained(d.log, known, set(), left)) == []


def test_an_app_that_was_stopped_in_order_left_nothing() -> None:
    with stopped(shop(events=True)) as (d, known):
        found = stop_old(d.log, d.clock, 1.0)(known, planned(d.log, shop(events=True, limit=5)))
        assert found.questions == []
