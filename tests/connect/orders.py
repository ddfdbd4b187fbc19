"""Typed topics of orders, and how the tests of connections write raw bytes and expect refusals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from tidegate import TableTopic, TidegateError, Topic
from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.types import TopicPartition

NOW = 1_700_000_000_000
"""Where the clock of the `connection` fixture starts."""


class Order(Struct, frozen=True):
    id: int
    cents: int = 0


ORDERS = Topic("orders", Order)
TOTALS = TableTopic("totals", int)
READINGS = Topic("readings", Order, key=int, partitions=2, timestamp=lambda order: order.cents)


def append_raw(connection: Connection, topic: str, *rows: Row, partition: int = 0) -> None:
    """Append rows of bytes, past the topic's serdes."""
    connection.log.append(TopicPartition(topic, partition), to_batch(rows))


def refused(code: str, call: Any, *arguments: Any, **named: Any) -> TidegateError:
    """The error of a call (or of reading the iterator that it returns), which must have `code` and a hint."""
    with pytest.raises(TidegateError) as error:
        found = call(*arguments, **named)
        if hasattr(found, "__next__"):
            list(found)
    assert error.value.code == code
    assert error.value.hint
    return error.value
