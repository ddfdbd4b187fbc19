"""The second example: settings, a struct per order, dead letters."""

from __future__ import annotations

import pytest
from examples.orders.orders import ORDERS, TOTALS, Config, Order, Totals, app

from tidegate.testing import Commit, Driver
from tidegate.topics import Topic

RAW_ORDERS = Topic("orders", bytes)


@pytest.mark.parametrize("step", Commit)
def test_a_customer_keeps_its_orders_over_a_crash(step: Commit) -> None:
    with Driver(app(Config()), partitions=3) as d:
        d.send(ORDERS, "ada", Order(1, 500), Order(2, 700))
        d.send(ORDERS, "bob", Order(3, 100))
        d.crash(at=step)
        d.run()
        assert d.rows(TOTALS) == {"ada": Totals(2, 1200), "bob": Totals(1, 100)}
        assert d.store("totals").contents == d.store("totals").changelog


def test_a_paused_customer_keeps_its_order_over_a_crash() -> None:
    with Driver(app(Config()), partitions=3) as d:
        gate = d.gate("orders-gate")
        gate.pause("ada", reason="chargeback")
        d.send(ORDERS, "ada", Order(1, 500), Order(2, 700))
        d.send(ORDERS, "bob", Order(3, 100))
        d.crash(at=Commit.LOG_COMMITTED)  # step 5 done, step 6 not
        d.run()
        assert (gate.held("ada"), d.rows(TOTALS)) == (2, {"bob": Totals(1, 100)})
        gate.resume("ada")
        d.run()
        assert d.rows(TOTALS)["ada"] == Totals(2, 1200)
        assert d.store("totals").contents == d.store("totals").changelog


def test_orders_below_the_setting_are_left_out() -> None:
    with Driver(app(Config(min_cents=200))) as d:
        d.send(ORDERS, "ada", Order(1, 199), Order(2, 200))
        d.run()
        assert d.rows(TOTALS) == {"ada": Totals(1, 200)}


def test_an_order_that_cannot_be_read_is_put_aside_and_the_others_count() -> None:
    with Driver(app(Config()), partitions=3) as d:
        d.send(ORDERS, "ada", Order(1, 500))
        d.send(RAW_ORDERS, "ada", b'{"id": "two"}')
        d.send(ORDERS, "ada", Order(3, 700))
        d.run()
        assert d.rows(TOTALS) == {"ada": Totals(2, 1200)}
        (letter,) = d.dead_letters()
        assert (letter.key, letter.value) == (b"ada", b'{"id": "two"}')
        reported = dict(letter.headers)
        assert reported["tidegate.error.code"] == b"undecodable"
        assert reported["tidegate.error.position"] == b"orders/2/1"
        assert reported["tidegate.error.internal-position"] == b"orders-orders-gate-admitted/2/1"
        assert (reported["tidegate.origin"] or b"").startswith(b"orders/2/1 ")


def test_a_dead_letter_is_written_once_over_a_crash() -> None:
    with Driver(app(Config())) as d:
        d.send(RAW_ORDERS, "ada", b"no order")
        d.crash(at=Commit.LOG)
        d.crash(at=Commit.LOG_COMMITTED)
        d.run()
        assert [letter.value for letter in d.dead_letters()] == [b"no order"]
        assert d.rows(TOTALS) == {}
