"""Topics: what is declared, what is refused, and how keys and values pass through."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec import Struct

from tidegate.errors import ConfigError, SerdeError
from tidegate.serde import Json, MsgPack
from tidegate.topics import TableTopic, Topic, TopicBase


class Order(Struct, frozen=True):
    cents: int
    at: Any = 0


class Started(Struct, tag=True, frozen=True):
    title: str


class Done(Struct, tag=True, frozen=True):
    seconds: float


class Pair(Struct, frozen=True):
    shop: int
    till: int


KINDS: list[Any] = [Topic, TableTopic]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@each_kind
def test_a_name_and_a_type_are_enough(kind: Any) -> None:
    topic = kind("orders", Order)
    assert (topic.name, topic.partitions, topic.timestamp, dict(topic.config)) == ("orders", None, None, {})
    assert (topic.key_serde.name, topic.value_serde.name) == ("str", "json[Order]")


@each_kind
def test_everything_else_can_be_declared_too(kind: Any) -> None:
    when = lambda order: order.at  # noqa: E731 - kept as the same object
    topic = kind(
        "orders", MsgPack[Order](), key=int, partitions=3, timestamp=when, config={"retention.ms": "1000"}
    )
    assert (topic.key_serde.name, topic.value_serde.name) == ("int", "msgpack[Order]")
    assert (topic.partitions, topic.timestamp, dict(topic.config)) == (3, when, {"retention.ms": "1000"})


def test_a_topic_holds_history_and_a_table_topic_rows() -> None:
    assert (Topic("a", int).policy, TableTopic("b", int).policy) == ("delete", "compact")


def test_a_table_topic_is_no_topic_and_a_topic_is_no_table_topic() -> None:
    assert not isinstance(Topic("a", int), TableTopic)
    assert not isinstance(TableTopic("a", int), Topic)
    assert isinstance(TableTopic("a", int), TopicBase)


@each_kind
def test_a_topic_is_a_constant_that_equals_only_itself(kind: Any) -> None:
    config = {"retention.ms": "1"}
    topic = kind("orders", Order, config=config)
    config["retention.ms"] = "2"
    assert topic.config["retention.ms"] == "1"
    with pytest.raises(TypeError):
        topic.config["retention.ms"] = "3"
    with pytest.raises(dataclasses.FrozenInstanceError):
        topic.name = "other"
    assert topic != kind("orders", Order)
    assert {topic: 1}[topic] == 1


def test_a_topic_has_a_readable_repr() -> None:
    assert repr(Topic("events", Json[Started | Done]())) == "Topic('events', json[Started | Done], key=str)"
    assert repr(TableTopic("totals", int, key=Pair)) == "TableTopic('totals', int, key=json[Pair])"


@each_kind
def test_types_in_brackets_change_nothing(kind: Any) -> None:
    assert kind[str, Order]("orders", Order).encode_key("ada") == b"ada"


@each_kind
def test_keys_and_values_pass_through_their_serdes(kind: Any) -> None:
    topic = kind("orders", Json[Started | Done](), key=Pair)
    assert topic.decode_key(topic.encode_key(Pair(1, 2))) == Pair(1, 2)
    assert topic.decode_value(topic.encode_value(Done(1.5))) == Done(1.5)
    assert topic.encode_value(Started("x")) == b'{"type":"Started","title":"x"}'


@each_kind
def test_none_has_no_bytes_and_no_bytes_are_none(kind: Any) -> None:
    topic = kind("orders", Order)
    assert topic.encode_key(None) is None
    assert topic.encode_value(None) is None
    assert topic.decode_key(None) is None
    assert topic.decode_value(None) is None


def test_empty_bytes_are_a_value_and_no_tombstone() -> None:
    topic = Topic("texts", str, key=bytes)
    assert topic.encode_value("") == b""
    assert topic.decode_value(b"") == ""
    assert topic.decode_key(b"") == b""


def test_a_refused_value_is_reported_with_topic_and_side() -> None:
    topic: Topic[Any, Any] = Topic("orders", Order)
    with pytest.raises(SerdeError, match=r"topic 'orders', value: .*Started") as value:
        topic.encode_value(Started("x"))
    with pytest.raises(SerdeError, match=r"topic 'orders', key: .*int") as key:
        topic.encode_key(5)
    assert value.value.code == key.value.code == "wrong-type"
    assert value.value.hint


def test_bytes_that_cannot_be_read_are_reported_with_side_and_take_a_position() -> None:
    topic = Topic("orders", Order)
    with pytest.raises(SerdeError, match="value: ") as value:
        topic.decode_value(b"{")
    with pytest.raises(SerdeError, match="key: "):
        topic.decode_key(b"\xff")
    reported = value.value.at("orders", 3, 42)
    assert reported.position == ("orders", 3, 42)
    assert reported.message.startswith("orders/3 offset 42: value: serde json[Order] cannot read")
    assert reported.message.count("orders") == 1


@each_kind
@pytest.mark.parametrize("name", ["a/b", "", "orders\n", "orders.g2", "__orders"])
def test_a_bad_name_is_refused(kind: Any, name: str) -> None:
    with pytest.raises(ConfigError, match="topic name"):
        kind(name, Order)


@each_kind
@pytest.mark.parametrize("partitions", [0, -1, 10_001, True, 1.0, "3"])
def test_a_number_of_partitions_that_makes_no_sense_is_refused(kind: Any, partitions: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        kind("orders", Order, partitions=partitions)
    assert (caught.value.code, bool(caught.value.hint)) == ("bad-partitions", True)


@pytest.mark.parametrize("partitions", [1, 10_000])
def test_the_smallest_and_the_largest_number_of_partitions_are_taken(partitions: int) -> None:
    assert Topic("orders", Order, partitions=partitions).partitions == partitions


@each_kind
def test_a_type_without_a_serde_is_reported_with_topic_and_side(kind: Any) -> None:
    with pytest.raises(ConfigError, match="topic 'orders', value: Any") as value:
        kind("orders", Any)
    with pytest.raises(ConfigError, match="topic 'orders', key: None") as key:
        kind("orders", Order, key=None)
    with pytest.raises(ConfigError, match=r"Json\[Started \| Done\]\(\)") as union:
        kind("events", Started | Done)
    assert [caught.value.code for caught in (value, key, union)] == [
        "missing-serde",
        "missing-serde",
        "union-needs-format",
    ]


@each_kind
@pytest.mark.parametrize("key", [dict[str, int], frozenset[str], Json[list[Any]]()])
def test_a_key_that_can_have_two_forms_is_refused(kind: Any, key: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        kind("orders", Order, key=key)
    assert (caught.value.code, bool(caught.value.hint)) == ("unstable-key", True)


MOMENT = datetime(2024, 5, 1, 12, 0, 0, 1999, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("found", "millis"),
    [
        (0, 0),
        (1_714_557_600_001, 1_714_557_600_001),
        (MOMENT, 1_714_557_600_001),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(9999, 12, 31, tzinfo=UTC), 253_402_214_400_000),
    ],
)
def test_the_event_time_is_what_the_extractor_finds(found: Any, millis: int) -> None:
    topic = Topic("orders", Order, timestamp=lambda order: order.at)
    assert topic.event_time(Order(1, found), 7) == millis


def test_without_an_extractor_or_a_value_the_recorded_time_stays() -> None:
    assert Topic("orders", Order).event_time(Order(1, 5), 7) == 7
    assert Topic("orders", Order, timestamp=lambda order: order.at).event_time(None, 7) == 7


@pytest.mark.parametrize(
    "found",
    [
        -1,
        2**63,
        1.5,
        True,
        None,
        "2024-05-01",
        MOMENT.replace(tzinfo=None),
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
)
def test_a_timestamp_that_is_no_time_is_refused(found: Any) -> None:
    topic = Topic("orders", Order, timestamp=lambda order: order.at)
    with pytest.raises(SerdeError) as caught:
        topic.event_time(Order(1, found), 7)
    assert (caught.value.code, bool(caught.value.hint)) == ("bad-timestamp", True)


def test_what_an_extractor_raises_comes_through() -> None:
    topic = Topic("orders", Order, timestamp=lambda order: 1 // order.cents)
    with pytest.raises(ZeroDivisionError):
        topic.event_time(Order(0), 7)
