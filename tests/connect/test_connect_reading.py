"""Reading, following and folding topics, typed, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Struct
from tests.connect.orders import NOW, ORDERS, READINGS, TOTALS, Order, append_raw, refused
from tests.waiting import HANG_SECONDS

from tidegate import ConfigError, LogError, Record, SerdeError, TableTopic, Topic
from tidegate.connect.connection import Connection
from tidegate.log.records import Row, to_batch
from tidegate.types import Offset, TopicPartition


def filled(connection: Connection) -> None:
    for number in range(10):
        connection.send(READINGS, number, Order(number, cents=100 + number), partition=number % 2)


def ids(records: Iterator[Record[Any, Any]]) -> list[int]:
    return [record.value.id for record in records]


def test_partitions_are_merged_by_time_and_keep_their_own_order(connection: Connection) -> None:
    filled(connection)
    connection.send(READINGS, 0, Order(10, cents=5), partition=0)
    assert ids(connection.read(READINGS)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9]
    assert ids(connection.read(READINGS, partition=1)) == [1, 3, 5, 7, 9]


def test_a_read_ends_where_the_topic_ended_when_it_was_called(connection: Connection) -> None:
    filled(connection)
    found = connection.read(READINGS)
    connection.send(READINGS, 1, Order(99, cents=1))
    assert len(list(found)) == 10


def test_start_and_end_are_offsets_of_one_partition(connection: Connection) -> None:
    filled(connection)
    assert ids(connection.read(READINGS, partition=0, start=1, end=3)) == [2, 4]
    assert ids(connection.read(READINGS, partition=0, start=5)) == []
    assert ids(connection.read(READINGS, partition=0, start=3, end=1)) == []
    assert ids(connection.read(READINGS, partition=0, end=1000)) == [0, 2, 4, 6, 8]
    refused("offset-of-which-partition", connection.read, READINGS, start=1)
    refused("offset-of-which-partition", connection.read, READINGS, end=1)
    for start in (-1, 6):
        refused("offset-out-of-range", connection.read, READINGS, partition=0, start=start)
    refused("start-and-since", connection.read, READINGS, partition=0, start=1, since=0)
    refused("no-such-partition", connection.read, READINGS, partition=2)


def test_since_is_a_time(connection: Connection) -> None:
    for number in range(10):
        connection.send(ORDERS, f"{number}", Order(number), timestamp=number * 1000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=6)
    assert ids(connection.read(ORDERS, since=moment)) == [6, 7, 8, 9]
    assert ids(connection.read(ORDERS, since=8_500)) == [9]
    assert ids(connection.read(ORDERS, since=10**15)) == []
    assert len(ids(connection.read(ORDERS, since=-5))) == 10
    refused("bad-timestamp", connection.read, ORDERS, since=datetime(2025, 1, 1))  # noqa: DTZ001


def test_limit_counts_records(connection: Connection) -> None:
    filled(connection)
    assert ids(connection.read(READINGS, limit=3)) == [0, 1, 2]
    assert ids(connection.read(READINGS, limit=0)) == []
    refused("bad-limit", connection.read, READINGS, limit=-1)


def test_undecodable_bytes_are_reported_with_their_position_and_never_skipped(connection: Connection) -> None:
    connection.send(ORDERS, None, Order(1), partition=0)
    append_raw(connection, "orders", Row(b"k", b'{"id": "no number"}', NOW))
    append_raw(connection, "orders", Row(b"\xff", b'{"id": 2}', NOW))
    found = connection.read(ORDERS, partition=0)
    assert next(found).value == Order(1)
    with pytest.raises(SerdeError) as error:
        next(found)
    assert (error.value.code, error.value.position) == ("undecodable", ("orders", 0, 1))
    assert "value" in error.value.message
    error_of_key = refused("undecodable", connection.read, ORDERS, partition=0, start=2)
    assert "orders/0 offset 2: key" in error_of_key.message


def test_a_bad_event_time_is_reported_with_its_position(connection: Connection) -> None:
    connection.send(READINGS, 1, Order(1))
    append_raw(connection, "readings", Row(None, b'{"id":1,"cents":-1}', NOW))
    assert "readings/0" in refused("bad-timestamp", connection.read, READINGS, partition=0).message


def test_a_topic_that_does_not_exist_is_reported_at_once(connection: Connection) -> None:
    for call in (connection.read, connection.tail):
        refused("no-such-topic", call, ORDERS)
    refused("no-such-topic", connection.rows, TOTALS)
    assert connection.log.names() == []


def test_history_that_was_cut_is_not_read_as_if_it_were_there(connection: Connection) -> None:
    filled(connection)
    connection.log.purge(TopicPartition("readings", 0), Offset(3))
    assert ids(connection.read(READINGS, partition=0)) == [6, 8]
    refused("offset-out-of-range", connection.read, READINGS, partition=0, start=2)


def test_records_of_an_open_or_aborted_transaction_are_not_read(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    with closing(connection.log.writer("w")) as writer:
        writer.append(TopicPartition("orders", 0), to_batch([Row(b"ghost", b'{"id":666}', NOW)]))
        assert ids(connection.read(ORDERS)) == [1]
        writer.abort()
    assert ids(connection.read(ORDERS)) == [1]


# Following


def test_tail_returns_what_comes_after_the_call(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    following = connection.tail(ORDERS, timeout=10)
    connection.send(ORDERS, "ada", Order(2))
    later = threading.Timer(0.1, lambda: connection.send(ORDERS, "bob", Order(3)))
    later.start()
    assert [next(following).value.id, next(following).value.id] == [2, 3]
    later.join()


def test_tail_since_returns_history_by_time_and_goes_on_live(connection: Connection) -> None:
    filled(connection)
    following = connection.tail(READINGS, since=105, timeout=0.05)
    connection.send(READINGS, 0, Order(77, cents=1))
    assert ids(following) == [5, 6, 7, 8, 9, 77]


def test_tail_of_one_partition_ends_after_the_time_out(connection: Connection) -> None:
    filled(connection)
    began = time.monotonic()
    assert ids(connection.tail(READINGS, partition=1, since=0, timeout=0.05)) == [1, 3, 5, 7, 9]
    assert ids(connection.tail(READINGS, timeout=0)) == []
    assert time.monotonic() - began < HANG_SECONDS


def test_tail_does_not_skip_what_it_cannot_read(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    following = connection.tail(ORDERS, timeout=5)
    append_raw(connection, "orders", Row(b"k", b"?", NOW))
    with pytest.raises(SerdeError, match="orders/0 offset"):
        next(following)


# Rows


def test_rows_are_the_fold_at_the_end(connection: Connection) -> None:
    connection.send(TOTALS, "ada", 1, 2)
    connection.send(TOTALS, "bob", 3)
    connection.send(TOTALS, "eve", 4, None)
    connection.send(TOTALS, "eve", None, 5)
    connection.send(TOTALS, "bob", None)
    assert connection.rows(TOTALS) == {"ada": 2, "eve": 5}


def test_a_key_in_two_partitions_has_its_latest_row(connection: Connection) -> None:
    connection.send(TOTALS, "ada", 1, partition=0, timestamp=5)
    connection.send(TOTALS, "ada", 2, partition=3, timestamp=4)
    assert connection.rows(TOTALS) == {"ada": 1}


def test_a_row_that_cannot_be_read_is_reported_with_its_position(connection: Connection) -> None:
    connection.send(TOTALS, "ada", 1)
    append_raw(connection, "totals", Row(b"k", b"short", NOW), Row(b"k", b"still short", NOW))
    error = refused("undecodable", connection.rows, TOTALS)
    assert isinstance(error, SerdeError)
    assert error.position == ("totals", 0, 1)


def test_rows_of_events_are_refused(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    refused("other-policy", connection.rows, TableTopic("orders", Order))


def test_keys_without_a_hash_are_refused(connection: Connection) -> None:
    class Key(Struct):
        a: int

    table = TableTopic("t", int, key=Key)
    connection.send(table, Key(1), 1)
    assert "frozen" in refused("unhashable-key", connection.rows, table).hint


def test_errors_are_of_the_exported_kinds(connection: Connection) -> None:
    assert isinstance(refused("no-such-topic", connection.read, ORDERS), LogError)
    assert isinstance(refused("bad-limit", connection.read, _made(connection), limit=-1), ConfigError)


def _made(connection: Connection) -> Topic[str, Order]:
    connection.send(ORDERS, "ada", Order(1))
    return ORDERS
