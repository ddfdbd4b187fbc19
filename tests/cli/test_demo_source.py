"""The demo's orders are the same each time, and its check finds what is wrong with what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from tests.waiting import wait_for

from tidegate import TidegateError, connect
from tidegate.cli.demo.script import check
from tidegate.cli.demo.source import ADMITTED, CUSTOMERS, ORDERS, TOTALS, Order, Source, Totals, bursts
from tidegate.connect.connection import Connection

SENT = {"ada": Totals(2, 1200), "bob": Totals(1, 100)}


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect("sqlite://") as connection:
        yield connection


def test_the_same_orders_come_each_time_and_are_numbered_for_each_customer() -> None:
    first = list(islice(bursts(), 2_000))
    assert first == list(islice(bursts(), 2_000))
    assert first != list(islice(bursts(seed=8), 2_000))
    for customer in CUSTOMERS:
        numbers = [order.id for name, orders in first for order in orders if name == customer]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 50


def test_a_source_sends_until_it_is_stopped_and_knows_what_it_sent(connection: Connection) -> None:
    with Source(connection, per_second=100_000) as source:
        wait_for(lambda: sum(total.orders for total in source.sent.values()) > 500)
    found: dict[str, Totals] = {}
    for record in connection.read(ORDERS):
        found[record.key] = found.get(record.key, Totals()).plus(record.value)
    assert found == source.sent
    source.stop()


def test_the_error_that_ended_a_source_is_raised_by_its_next_use(connection: Connection) -> None:
    connection.close()
    with Source(connection) as source:
        source.stop()
        with pytest.raises(TidegateError, match="closed"):
            _ = source.sent


@pytest.mark.parametrize(
    "fault", ["", "swapped", "doubled", "lost", "lost-customer", "wrong-total", "no-total"]
)
def test_the_check_finds_what_is_wrong(connection: Connection, fault: str) -> None:
    orders = [Order(1, 500), Order(2, 700)]
    if fault == "swapped":
        orders.reverse()
    elif fault == "doubled":
        orders.append(orders[-1])
    elif fault == "lost":
        orders.pop()
    connection.send(ADMITTED, "ada", *orders)
    if fault != "lost-customer":
        connection.send(ADMITTED, "bob", Order(1, 100))
    connection.send(TOTALS, "ada", Totals(1, 500), Totals(2, 1200 - (fault == "wrong-total")))
    if fault != "no-total":
        connection.send(TOTALS, "bob", Totals(1, 100))
    if not fault:
        check(connection, SENT)
        return
    with pytest.raises(TidegateError) as error:
        check(connection, SENT)
    assert error.value.code == "demo-failed"
