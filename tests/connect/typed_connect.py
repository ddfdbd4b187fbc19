"""Right and wrong uses of a connection, as a type checker sees them. Never run: `tidy/test_typed_uses.py`.

A wrong use carries the error that it must give; if it stops being one, the unused `type: ignore` is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import assert_type

from msgspec import Struct

import tidegate
from tidegate import Json, Record, TableTopic, Topic
from tidegate.connect.connection import Connection, Sent


class Order(Struct, frozen=True):
    cents: int


class Refund(Struct, tag="refund", frozen=True):
    cents: int


class Gift(Struct, tag="gift", frozen=True):
    title: str


ORDERS = Topic("orders", Order)
TOTALS = TableTopic("totals", int)
EVENTS = Topic("events", Json[Refund | Gift](), key=int)


def sending() -> None:
    with tidegate.connect() as log:
        assert_type(log, Connection)
        assert_type(log.send(ORDERS, "ada", Order(1), Order(2)), Sent)
        log.send(ORDERS, None, Order(1), timestamp=datetime.now(UTC), headers=[("a", b"b"), ("c", None)])
        log.send(TOTALS, "ada", 1, None, partition=2)
        log.send(EVENTS, 5, Gift("book"), Refund(2))
        log.send(ORDERS, 5, Order(1))  # type: ignore[misc]
        log.send(ORDERS, "ada", None)  # type: ignore[misc]
        log.send(ORDERS, "ada", 5)  # type: ignore[misc]
        log.send(TOTALS, None, 5)  # type: ignore[misc]
        log.send(TOTALS, "ada", "5")  # type: ignore[misc]
        log.send("orders", "ada", Order(1))  # type: ignore[call-overload]


def reading(log: Connection) -> None:
    assert_type(log.read(ORDERS), Iterator[Record[str, Order]])
    assert_type(log.read(TOTALS), Iterator[Record[str, int | None]])
    assert_type(log.tail(EVENTS, timeout=1.5), Iterator[Record[int, Refund | Gift]])
    assert_type(log.tail(TOTALS, since=5), Iterator[Record[str, int | None]])
    assert_type(log.rows(TOTALS), dict[str, int])
    log.rows(ORDERS)  # type: ignore[arg-type]
    log.read(ORDERS, since="yesterday")  # type: ignore[call-overload]
