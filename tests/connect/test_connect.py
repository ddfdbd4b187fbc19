"""Connecting to a log and sending to topics, typed, without Spark."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.connect.orders import NOW, ORDERS, READINGS, TOTALS, Order, append_raw, refused

import tidegate
from tidegate import Record, SerdeError, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection, Sent
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec

TO_EAST = timezone(timedelta(hours=1))


# Connecting


def test_connect_takes_the_log_of_the_file_that_it_finds(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text('log = "sqlite:///data/log.db"\npartitions = 3')
    with tidegate.connect(folder=tmp_path) as connection:
        connection.send(ORDERS, "ada", Order(1))
        assert connection.log.describe("orders").partitions == 3
    with tidegate.connect(f"sqlite:///{tmp_path}/data/log.db") as connection:
        assert [record.value for record in connection.read(ORDERS)] == [Order(1)]


def test_a_log_that_was_passed_in_stays_open() -> None:
    with closing(SqliteLog()) as log:
        with tidegate.connect(log) as connection:
            assert connection.log is log
            connection.send(ORDERS, "ada", Order(1))
        assert log.names() == ["orders"]


def test_what_is_neither_a_log_nor_a_url_is_refused(tmp_path: Path) -> None:
    wrong: Any = tmp_path / "log.db"
    refused("bad-log-url", tidegate.connect, wrong)
    refused("bad-log-url", tidegate.connect, "log.db")
    refused("bad-log-url", tidegate.connect, "kafka://broker:9092/topic")


def test_a_closed_connection_refuses_calls_and_can_be_closed_twice(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    reading = connection.read(ORDERS)
    following = connection.tail(ORDERS)
    connection.close()
    connection.close()
    for call in (connection.read, connection.tail):
        refused("closed", call, ORDERS)
    refused("closed", connection.send, ORDERS, "ada", Order(1))
    refused("closed", connection.rows, TOTALS)
    for found in (reading, following):
        refused("closed", next, found)


# Sending


def test_what_is_sent_is_read_back_with_everything_in_it(connection: Connection) -> None:
    sent = connection.send(ORDERS, "ada", Order(1, 500), headers=[("source", b"web"), ("source", None)])
    partition = partition_for(b"ada", 4)
    assert sent == Sent("orders", partition, 0)
    headers = (("source", b"web"), ("source", None))
    record = Record("ada", Order(1, 500), NOW, headers, "orders", partition, 0)
    assert list(connection.read(ORDERS)) == [record]


def test_several_values_are_one_append_and_the_last_offset_is_returned(connection: Connection) -> None:
    assert connection.send(ORDERS, "ada", Order(1), Order(2), Order(3)).offset == 2
    assert [record.value.id for record in connection.read(ORDERS)] == [1, 2, 3]


def test_if_one_value_cannot_be_sent_none_is(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    wrong: Any = "no order"
    refused("wrong-type", connection.send, ORDERS, "ada", Order(2), wrong)
    refused("record-too-large", connection.send, Topic("orders", bytes), "ada", b"{}", b"x" * 2_000_000)
    assert [record.value for record in connection.read(ORDERS)] == [Order(1)]


def test_a_value_that_cannot_be_written_creates_no_topic(connection: Connection) -> None:
    wrong: Any = 5
    refused("wrong-type", connection.send, ORDERS, "ada", wrong)
    refused("wrong-type", connection.send, ORDERS, wrong, Order(1))
    refused("no-value", connection.send, ORDERS, "ada")
    refused("reserved-name", connection.send, ORDERS, "ada", Order(1), headers=[("tidegate.owner", b"me")])
    refused("bad-header", connection.send, ORDERS, "ada", Order(1), headers=[("a", "text")])
    refused("illegal-name", connection.send, ORDERS, "ada", Order(1), headers=[(b"a", b"b")])
    assert connection.log.names() == []


def test_a_topic_is_created_as_it_is_declared(connection: Connection) -> None:
    connection.send(Topic("a", str, partitions=7, config={"retention.ms": "5"}), "k", "v")
    connection.send(TableTopic("b", str), "k", "v")
    connection.send(TableTopic("c", str, config={"cleanup.policy": "compact,delete"}), "k", "v")
    a, b, c = (connection.log.describe(name) for name in "abc")
    assert (a.partitions, a.policy, a.setting("retention.ms")) == (7, "delete", 5)
    assert (b.partitions, b.policy, b.setting("delete.retention.ms")) == (4, "compact", 30 * 24 * 3600 * 1000)
    assert c.policy == "compact,delete"


def test_a_topic_that_exists_keeps_the_count_that_it_has(connection: Connection) -> None:
    connection.log.create(TopicSpec("orders", 9))
    connection.send(ORDERS, "ada", Order(1))
    error = refused("partition-count", connection.send, Topic("orders", Order, partitions=2), "ada", Order(1))
    assert "9" in error.message


def test_rows_and_events_do_not_share_a_topic(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    connection.send(TOTALS, "ada", 1)
    refused("other-policy", connection.send, TableTopic("orders", Order), "ada", Order(1))
    refused("other-policy", connection.send, Topic("totals", int), "ada", 1)
    compacted = Topic("x", int, config={"cleanup.policy": "compact"})
    refused("bad-topic-config", connection.send, compacted, "ada", 1)
    assert connection.log.names() == ["orders", "totals"]


def test_a_topic_deleted_meanwhile_is_created_again(connection: Connection) -> None:
    connection.send(ORDERS, "ada", Order(1))
    connection.log.delete("orders")
    connection.send(ORDERS, "ada", Order(2))
    assert [record.value.id for record in connection.read(ORDERS)] == [2]


def test_a_topic_recreated_with_another_count_is_partitioned_by_the_new_one(connection: Connection) -> None:
    connection.send(ORDERS, "grace", Order(1))
    connection.log.delete("orders")
    connection.log.create(TopicSpec("orders", 50))
    sent = connection.send(ORDERS, "grace", Order(2))
    assert sent.partition == partition_for(b"grace", 50)


def test_records_without_a_key_take_turns_also_between_connections(connection: Connection) -> None:
    first = [connection.send(ORDERS, None, Order(n)).partition for n in range(6)]
    again = tidegate.connect(connection.log, clock=ManualClock(NOW))
    second = [again.send(ORDERS, None, Order(n)).partition for n in range(2)]
    assert first + second == [0, 1, 2, 3, 0, 1, 2, 3]
    assert {record.key for record in connection.read(ORDERS)} == {None}


def test_a_partition_can_be_given_and_must_exist(connection: Connection) -> None:
    assert connection.send(ORDERS, "ada", Order(1), partition=2).partition == 2
    for partition in (-1, 4, 10**9):
        refused("no-such-partition", connection.send, ORDERS, "ada", Order(1), partition=partition)


def test_the_event_time_is_found_in_the_value_else_given_else_now(
    connection: Connection, clock: ManualClock
) -> None:
    clock.advance(5)
    connection.send(ORDERS, "a", Order(1))
    connection.send(ORDERS, "a", Order(2), timestamp=7)
    connection.send(
        ORDERS, "a", Order(3), timestamp=datetime(2001, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    )
    connection.send(READINGS, 1, Order(4, cents=1234), timestamp=99)
    assert [record.timestamp for record in connection.read(ORDERS)] == [NOW + 5, 7, 978303600000]
    assert [record.timestamp for record in connection.read(READINGS)] == [1234]


NAIVE = datetime(2025, 1, 1)  # noqa: DTZ001
TOO_FAR = [-1, 253_402_300_800_000, NOW + 3_600_001, 1 << 63, -(1 << 63) - 1]


@pytest.mark.parametrize("timestamp", [*TOO_FAR, NAIVE, "now", True, 1.5])
def test_an_absurd_timestamp_is_refused_by_name(connection: Connection, timestamp: Any) -> None:
    connection.send(ORDERS, "ada", Order(1))
    refused("bad-timestamp", connection.send, ORDERS, "ada", Order(2), timestamp=timestamp)
    assert [record.value.id for record in connection.read(ORDERS)] == [1]


def test_an_absurd_time_in_the_value_is_refused_by_name(connection: Connection) -> None:
    for millis in (-5, 1 << 63, 253_402_300_800_000):
        refused("bad-timestamp", connection.send, READINGS, 1, Order(1, cents=millis))


def test_a_record_of_50_mb_is_refused_and_the_log_goes_on(connection: Connection) -> None:
    blobs = Topic("blobs", bytes)
    refused("record-too-large", connection.send, blobs, "ada", b"x" * 50_000_000)
    connection.send(blobs, "ada", b"")
    assert [record.value for record in connection.read(blobs)] == [b""]


def test_a_table_takes_tombstones_and_needs_keys(connection: Connection) -> None:
    connection.send(TOTALS, "ada", 1, None)
    assert [record.value for record in connection.read(TOTALS)] == [1, None]
    no_key: Any = None
    refused("null-key", connection.send, TOTALS, no_key, 1)


def test_none_is_no_event(connection: Connection) -> None:
    nothing: Any = None
    refused("null-value", connection.send, ORDERS, "ada", nothing)
    connection.send(ORDERS, "ada", Order(1))
    append_raw(connection, "orders", Row(b"k", None, NOW))
    error = refused("null-value", connection.read, ORDERS, partition=0)
    assert isinstance(error, SerdeError)
    assert error.position == ("orders", 0, 0)
