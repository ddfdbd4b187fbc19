"""How much Python runs for one record: the cost of a record is the sum of many small calls."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.testing import Driver

MOST, MOST_OF_PROCESSOR = 35, 22
RECORDS, KEYS = 2_000, 100


class Order(msgspec.Struct, frozen=True):
    id: int
    cents: int


ORDERS = Topic("orders", Order, key=str)
TOTALS = TableTopic("totals", int, key=str)
COUNTS = stores.key_value("counts", int)


def cents(order: Order) -> int:
    return order.cents


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of functions that are written in Python."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def test_a_record_that_is_summed_and_written_to_a_table_takes_few_calls() -> None:
    app = App("shop")
    app.stream(ORDERS).sum("sums", cents).to(TOTALS)
    with Driver(app, batches=False) as driver:
        send(driver)
        driver.run()
        send(driver)
        with counted_calls() as calls:
            driver.run()
        assert driver.rows(TOTALS) == {f"k{n}": 2 * RECORDS // KEYS for n in range(KEYS)}
    each = calls.total() / RECORDS
    assert each <= MOST, f"{each:.1f} calls for each record: {calls.most_common(40)}"


def count(record: Record[str, Order], ctx: Context[str, int]) -> None:
    counts = ctx.store(COUNTS)
    total = (counts.get(record.key) or 0) + record.value.cents
    counts.put(record.key, total)
    ctx.forward(record.with_value(total))


def test_a_record_that_a_processor_counts_takes_fewer() -> None:
    """What it reads is decoded and what it writes is encoded many records at a time."""
    app = App("shop")
    app.stream(ORDERS).process("count", count, stores=[COUNTS]).to(TOTALS)
    with Driver(app) as driver:
        send(driver)
        driver.run()
        send(driver)
        with counted_calls() as calls:
            driver.run()
        assert driver.rows(TOTALS) == {f"k{n}": 2 * RECORDS // KEYS for n in range(KEYS)}
    each = calls.total() / RECORDS
    assert each <= MOST_OF_PROCESSOR, f"{each:.1f} calls for each record: {calls.most_common(40)}"


def send(driver: Driver) -> None:
    for number in range(KEYS):
        driver.send(ORDERS, f"k{number}", *[Order(number, 1)] * (RECORDS // KEYS))
