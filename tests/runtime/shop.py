"""An app for crash tests: a join with a table, a repartition, an aggregate; and three rounds of input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from tidegate import App, TableTopic, Topic
from tidegate.log.protocol import Log
from tidegate.state.manager import Limits
from tidegate.testing import Driver, Outcome

PARTITIONS = 3
SLOTS = 2
EAGER = Limits(sync=False, commit_bytes=1, replay_buffer_bytes=1)
"""Stores are committed to disk at every commit and in every turn of a restore."""
LAZY = Limits(sync=False)
"""Stores are committed to disk at a clean close only: after a crash they lag."""


class Sale(Struct, frozen=True):
    number: int
    cents: int
    note: str = ""


class Placed(Struct, frozen=True):
    number: int
    cents: int
    region: str
    note: str = ""


class Total(Struct, frozen=True):
    sales: int = 0
    cents: int = 0


SALES = Topic("sales", Sale)
CUSTOMERS = TableTopic("customers", str)
PLACED = Topic("placed", Placed)
TOTALS = TableTopic("region-totals", Total)


def place(sale: Sale, region: str) -> Placed:
    return Placed(sale.number, sale.cents, region, sale.note)


def add(total: Total, sale: Placed) -> Total:
    return Total(total.sales + 1, total.cents + sale.cents)


def shop() -> App:
    app = App("shop")
    placed = app.stream(SALES).join(app.table(CUSTOMERS), place)
    placed.to(PLACED)
    placed.group_by("by-region", lambda sale: sale.region).aggregate("totals", Total, add).to(TOTALS)
    return app


@dataclass
class Shop:
    """The input, and what must come of it: worked out with plain dictionaries."""

    driver: Driver
    placed: dict[str, list[Placed]] = field(default_factory=dict)
    totals: dict[str, Total] = field(default_factory=dict)
    _regions: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def live_in(self, region: str | None, *customers: str) -> None:
        for customer in customers:
            self.driver.advance(1)
            self.driver.send(CUSTOMERS, customer, region)
            if region is None:
                del self._regions[customer]
            else:
                self._regions[customer] = region

    def buy(self, *customers: str, note: str = "") -> None:
        for customer in customers:
            self._number += 1
            sale = Sale(self._number, 10 * self._number, note)
            self.driver.advance(1)
            self.driver.send(SALES, customer, sale)
            region = self._regions.get(customer)
            if region is not None:
                placed = place(sale, region)
                self.placed.setdefault(customer, []).append(placed)
                self.totals[region] = add(self.totals.get(region, Total()), placed)


def first_round(shop: Shop) -> None:
    shop.live_in("valley", "ada", "bob", "cem")
    shop.live_in("lake", "dia", "eve", "fay")
    shop.buy("ada", "dia", "ada", "bob", "eve", "cem", "gus", "fay", "ada", "bob")


def second_round(shop: Shop) -> None:
    shop.live_in("isle", "ada", "eve")
    shop.buy("ada", "eve", "dia", "cem", "ada", "bob", "gus", "fay")


def third_round(shop: Shop) -> None:
    shop.live_in(None, "bob")
    shop.live_in("lake", "gus")
    shop.buy("bob", "gus", "ada", "fay", "gus", "cem")


Trouble = Callable[[Driver], None]


def calm(driver: Driver) -> None:
    """Nothing happens."""


def day(
    first: Trouble = calm, second: Trouble = calm, limits: Limits = LAZY, log: Log | None = None
) -> Outcome:
    """Three rounds, with trouble before the first two; the second starts on another host. Everything that can
    be said of any such day is asserted; the rest is for the caller to compare."""
    with Driver(shop(), partitions=PARTITIONS, slots=SLOTS, limits=limits, log=log) as driver:
        story = Shop(driver)
        first_round(story)
        first(driver)
        driver.run()
        driver.move()
        second_round(story)
        second(driver)
        driver.run()
        third_round(story)
        driver.run()
        assert_right(driver, story)
        return driver.outcome()


def assert_right(driver: Driver, story: Shop) -> None:
    """I1, I2, I4 and I13 against the plain dictionaries, I5 on the offsets, I6 on the stores; no store was
    ever found ahead of the log (I7)."""
    assert driver.by_key(PLACED) == story.placed
    assert driver.rows(TOTALS) == story.totals == driver.store("totals").contents
    for topic in (PLACED, TOTALS):
        places = [(record.partition, record.offset) for record in driver.records(topic)]
        assert len(set(places)) == len(places)
    driver.assert_stores_match_changelogs()
    assert driver.discarded == []
