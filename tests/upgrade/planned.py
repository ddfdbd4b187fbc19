"""Apps whose plans are made, and how they are run and changed before."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.log.protocol import Log
from tidegate.testing import Driver
from tidegate.types import TopicPartition
from tidegate.upgrade.make_plan import make_plan
from tidegate.upgrade.plan import ComponentPlan, UpgradePlan

ORDERS, PHONE = Topic("orders", int), Topic("phone-orders", int)
TOTALS = TableTopic("totals", int)
MAILS = Topic("mails", int)
RATES = TableTopic("rates", int)


def shop(*, phone: bool = False, test: bool = False, mails: bool = False) -> App:
    """Orders through a gate; with phone orders, without test orders, and with mails beside it."""
    app = App("shop")
    orders = app.stream(ORDERS)
    admitted = (orders.merge(app.stream(PHONE)) if phone else orders).gate("door")
    (admitted.filter(lambda cents: cents > 0) if test else admitted).sum("sums", int).to(TOTALS)
    if mails:
        admitted.map(abs).to(MAILS)
    return app


def plain(filtered: bool = False, table: TableTopic[str, int] = TOTALS) -> App:
    """Sums without a gate."""
    app = App("shop")
    orders = app.stream(ORDERS)
    (orders.filter(bool) if filtered else orders).sum("sums", int).to(table)
    return app


def ran(log: Log, app: App, **sent: list[int]) -> None:
    """Run the app over these numbers, by topic and with the name of their key."""
    with Driver(app, log=log, partitions=2, clock=ManualClock()) as driver:
        for key, values in sent.items():
            driver.send(ORDERS, key, *values)
        driver.run()


def planned(log: Log | None, app: App) -> UpgradePlan:
    """The plan, after which the log is as it was."""
    before = seen(log)
    made = make_plan(log, app.build(), ManualClock())
    assert seen(log) == before
    assert msgspec.json.decode(msgspec.json.encode(made), type=UpgradePlan) == made
    return made


def seen(log: Log | None) -> dict[str, Any]:
    if log is None:
        return {}
    topics = [log.describe(name) for name in log.names()]
    return {
        info.name: log.ends([TopicPartition(info.name, n) for n in range(info.partitions)], committed=False)
        for info in topics
    }


def only(plan: UpgradePlan) -> ComponentPlan:
    [component] = plan.components
    return component


def codes(plan: UpgradePlan) -> list[str]:
    return [question.code for question in plan.questions]


def two(extra: bool) -> App:
    app = plain()
    stream = app.stream(PHONE)
    (stream.filter(bool) if extra else stream).count("calls").to(TableTopic("calls", int))
    return app


def look(record: Any, ctx: Any) -> None:
    ctx.forward(record)
