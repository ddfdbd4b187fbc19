"""Right and wrong uses, as a type checker sees them. Never run: `tidy/test_typed_uses.py` has mypy read it.

A wrong use carries the error that it must give. If it stops being an error, the unused `type: ignore` is
one. This is how a promise of the kind "a table over an event topic is a type error" is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, TypedDict, TypeVar, assert_type
from uuid import UUID

from msgspec import Struct

from tidegate.record import Record
from tidegate.serde import Avro, Json, JsonSchema, MsgPack, Serde, serde_for
from tidegate.topics import TableTopic, Topic

K = TypeVar("K")
V = TypeVar("V")


class Order(Struct, frozen=True):
    cents: int
    at: int


class Started(Struct, tag="started", frozen=True):
    title: str


class Done(Struct, tag="done", frozen=True):
    seconds: float


@dataclass
class Reading:
    celsius: float
    at: datetime


class Address(TypedDict):
    street: str


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = "red"


def table(topic: TableTopic[K, V]) -> tuple[K, V]:
    return topic.key_serde.decode(b""), topic.value_serde.decode(b"")


def stream(topic: Topic[K, V]) -> tuple[K, V]:
    return topic.key_serde.decode(b""), topic.value_serde.decode(b"")


def serdes_carry_their_type() -> None:
    assert_type(Json[Order](), Json[Order])
    assert_type(Json[Started | Done]().decode(b""), Started | Done)
    assert_type(MsgPack[list[Order]]().decode(b""), list[Order])
    assert_type(Avro[Order](subject="record-name"), Avro[Order])
    assert_type(JsonSchema[Started | Done](register=False).decode(b""), Started | Done)
    Avro[Order](subject="mine")  # type: ignore[arg-type]
    Avro[Order]().encode(Started("a"))  # type: ignore[arg-type]
    assert_type(serde_for(int), Serde[int])
    assert_type(serde_for(Order), Serde[Order])
    assert_type(serde_for(Json[Started | Done]()), Serde[Started | Done])
    assert_type(serde_for(Started | Done), Serde[Any])
    as_base: Serde[Started | Done] = Json[Started | Done]()
    as_base.encode(Done(1.0))
    as_base.encode(Order(1, 2))  # type: ignore[arg-type]
    Json[Order]().encode(Started("a"))  # type: ignore[arg-type]
    wrong: Serde[int] = Json[Order]()  # type: ignore[assignment]
    assert wrong


def topics_take_their_types_from_what_is_declared() -> None:
    assert_type(Topic("orders", Order), Topic[str, Order])
    assert_type(Topic("orders", Order, key=int), Topic[int, Order])
    assert_type(Topic("orders", Order, key=UUID, partitions=3), Topic[UUID, Order])
    assert_type(Topic("events", Json[Started | Done]()), Topic[str, Started | Done])
    assert_type(Topic("events", MsgPack[Order](), key=Json[Point]()), Topic[Point, Order])
    assert_type(Topic("orders", Avro[Order](), key=Avro[Point](latest=False)), Topic[Point, Order])
    assert_type(Topic("readings", Reading), Topic[str, Reading])
    assert_type(Topic("addresses", Address), Topic[str, Address])
    assert_type(Topic("colours", Colour), Topic[str, Colour])
    assert_type(Topic("lists", list[int]), Topic[str, list[int]])
    assert_type(Topic("dicts", dict[str, Order]), Topic[str, dict[str, Order]])
    assert_type(TableTopic("totals", int), TableTopic[str, int])
    assert_type(TableTopic("totals", int, key=Point), TableTopic[Point, int])
    assert_type(TableTopic("states", Json[Started | Done]()), TableTopic[str, Started | Done])


def topics_pass_their_types_on() -> None:
    topic = Topic("orders", Order, timestamp=lambda order: order.at)
    assert_type(topic, Topic[str, Order])
    assert_type(topic.encode_key("ada"), bytes | None)
    assert_type(topic.decode_key(b""), str | None)
    assert_type(topic.decode_value(b""), Order | None)
    topic.encode_value(None)
    topic.encode_value(Started("a"))  # type: ignore[arg-type]
    topic.encode_key(1)  # type: ignore[arg-type]
    topic.name = "other"  # type: ignore[misc]
    Topic("orders", Order, timestamp=lambda order: order.when)  # type: ignore[attr-defined]
    Topic("readings", Reading, key=int, timestamp=lambda reading: reading.at)
    Topic("readings", Reading, timestamp=lambda reading: str(reading.at))  # type: ignore[arg-type, return-value]
    Topic("orders", Order(1, 2))  # type: ignore[call-overload]
    Topic("orders")  # type: ignore[call-overload]


def a_table_topic_is_no_topic_and_a_topic_is_no_table_topic() -> None:
    assert_type(table(TableTopic("totals", int)), tuple[str, int])
    assert_type(stream(Topic("orders", Order, key=int)), tuple[int, Order])
    table(Topic("orders", Order))  # type: ignore[arg-type]
    stream(TableTopic("totals", int))  # type: ignore[arg-type]


def records_change_their_types_with_their_parts() -> None:
    record = Record("ada", Order(1, 2), 5)
    assert_type(record, Record[str, Order])
    assert_type(record.key, str)
    assert_type(record.value.cents, int)
    assert_type(record.header("trace"), bytes | None)
    assert_type(record.with_key(7), Record[int, Order])
    assert_type(record.with_value("x"), Record[str, str])
    record.value = Order(2, 3)  # type: ignore[misc]
    Record("ada", 1, "noon")  # type: ignore[arg-type]
    Record("ada", 1, 5, headers=(("trace", "text"),))  # type: ignore[arg-type]
