"""The plan of a changed app: what happens to each component."""

from __future__ import annotations

from typing import Any

from tests.upgrade.planned import (
    MAILS,
    ORDERS,
    PHONE,
    RATES,
    TOTALS,
    look,
    only,
    plain,
    planned,
    ran,
    shop,
    two,
)

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.testing import Driver
from tidegate.types import TopicPartition
from tidegate.upgrade.plan_text import plan_lines


def test_an_unchanged_app_has_nothing_to_do(log: SqliteLog) -> None:
    ran(log, shop(), ada=[1, 2])
    plan = planned(log, shop())
    assert (plan.state, plan.exit_code, plan.before, plan.after) == ("nothing", 0, 1, 1)
    assert (only(plan).action, only(plan).reads, only(plan).publishes) == ("keep", [], [])
    assert plan_lines(plan)[0] == "shop: generation 1, nothing to do"


def test_a_changed_component_is_recalculated_from_what_its_gate_admitted(log: SqliteLog) -> None:
    ran(log, shop(), ada=[1, 2], bob=[3])
    with Driver(shop(), log=log, partitions=2, clock=ManualClock()) as driver:
        driver.gate("door").pause("ada")
        driver.run()
        driver.send(ORDERS, "ada", 4, 5)
        driver.run()
    log.create(TopicSpec("phone-orders", 2))
    plan = planned(log, shop(phone=True, test=True))
    assert (plan.state, plan.exit_code, plan.before, plan.after) == ("changes", 2, 1, 2)
    component = only(plan)
    assert (component.action, component.before, component.after) == ("recalculate", 1, 2)
    [read] = component.reads
    assert (read.topic, read.records, read.complete, read.new) == ("shop-door-admitted", 3, True, False)
    assert [sub.replay for sub in component.subtopologies] == [False, True]
    [sink] = component.publishes
    assert (sink.topic, sink.kind, sink.rows_at_most >= 2) == ("totals", "table", True)
    [gate] = component.gates
    assert (gate.name, gate.held, gate.paused) == ("door", 2, 1)
    text = "\n".join(plan_lines(plan))
    assert "shop: generation 1 -> 2" in text
    assert "+ source phone-orders" in text
    assert "2 held events stay held" in text
    assert "recalculate sums from 3 records; publish to totals what differs" in text


def test_records_are_counted_by_topic_and_a_new_source_is_read_from_its_start(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1, 2, 3])
    log.create(TopicSpec("phone-orders", 2))
    log.append(TopicPartition("phone-orders", 1), to_batch([Row(b"k", b"1", 0)]))
    app = App("shop")
    app.stream(ORDERS).merge(app.stream(PHONE)).sum("sums", int).to(TOTALS)
    plan = planned(log, app)
    found = {read.topic: read for read in only(plan).reads}
    assert {topic: (read.records, read.new, read.complete) for topic, read in found.items()} == {
        "orders": (3, False, True),
        "phone-orders": (1, True, True),
    }
    assert any("from 4 records (orders 3, phone-orders 1)" in line for line in plan_lines(plan))


def test_events_are_not_published_again(log: SqliteLog) -> None:
    ran(log, shop(mails=True), ada=[1])
    plan = planned(log, shop(mails=True, test=True))
    sinks = {sink.topic: sink.kind for sink in only(plan).publishes}
    assert sinks == {"totals": "table", "mails": "events"}
    assert any("publish nothing again to mails" in line for line in plan_lines(plan))


def test_components_that_did_not_change_stay(log: SqliteLog) -> None:
    ran(log, two(extra=False), ada=[1])
    plan = planned(log, two(extra=True))
    assert {one.id: (one.action, one.before, one.after) for one in plan.components} == {
        "sums": ("keep", 1, 1),
        "calls": ("recalculate", 1, 2),
    }
    assert "  keep sums: it reads nothing again" in plan_lines(plan)


def test_a_component_that_shares_a_table_topic_with_a_changed_one_is_recalculated(log: SqliteLog) -> None:
    def both(filtered: bool) -> App:
        app = plain(filtered)
        app.stream(PHONE).count("calls").to(TOTALS)
        return app

    log.create(TopicSpec("phone-orders", 2))
    ran(log, both(filtered=False), ada=[1])
    plan = planned(log, both(filtered=True))
    found = {component.id: component for component in plan.components}
    assert {id: (one.action, one.before, one.after) for id, one in found.items()} == {
        "sums": ("recalculate", 1, 2),
        "calls": ("recalculate", 1, 2),
    }
    assert [read.topic for read in found["calls"].reads] == ["phone-orders"]
    [line] = [line for line in plan_lines(plan) if "~ calls" in line]
    assert line.endswith("it writes rows to totals, as sums does, which changed")


def test_a_first_start_is_a_plan_and_creates_nothing(log: SqliteLog) -> None:
    log.create(TopicSpec("orders", 2))
    plan = planned(log, plain())
    assert (plan.state, plan.before, plan.after, only(plan).action) == ("changes", 0, 1, "start")
    assert plan_lines(plan)[0] == "shop: first start"
    assert any("never ran on this log" in line for line in plan_lines(plan))
    assert log.names() == ["orders"]


def test_without_a_log_it_is_a_first_start(log: SqliteLog) -> None:
    plan = planned(None, plain())
    assert (plan.state, plan.exit_code, only(plan).action) == ("changes", 2, "start")
    assert "no topic orders" in plan.notes[1].text


def joined(filtered: bool) -> App:
    app = App("shop")
    orders = app.stream(ORDERS)
    orders = orders.filter(bool) if filtered else orders
    orders.join(app.table(RATES), lambda one, rate: one * rate).to(MAILS)
    halves = orders.group_by("by-size", str)
    halves.sum("halves", half).to(TableTopic("halves", float))
    halves.process("ticks", ticking).to(Topic("ticks", int))
    orders.process("quiet", look).to(Topic("quiet", int))
    return app


def half(value: int) -> float:
    return value / 2


def ticking(record: Any, ctx: Any) -> None:
    ctx.schedule(1000, lambda _: ctx.forward(record), by="wall")


def test_steps_whose_result_depends_on_the_order_are_named(log: SqliteLog) -> None:
    ran(log, joined(filtered=False))
    found = {one.label: one.why for one in only(planned(log, joined(filtered=True))).order_sensitive}
    assert set(found) == {"join", 'aggregate "halves"', 'process "ticks"'}
    assert "wall clock" in found['process "ticks"']
    assert "float" in found['aggregate "halves"']
