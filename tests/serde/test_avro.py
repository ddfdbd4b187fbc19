"""`Avro`: round trips, the bytes on the wire, and evolution."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from msgspec import defstruct
from tests.serde.avro_types import (
    EVENTS,
    EVERYTHING,
    Everything,
    Line,
    Order,
    Paid,
    Point,
    Refused,
    Row,
    Tree,
    code_of,
    law,
    made,
)
from tests.serde.registry_server import RegistryServer

from tidegate import Avro, ConfigError, Topic


@law
@given(value=EVERYTHING)
def test_what_is_written_is_read_back(server: RegistryServer, value: Everything) -> None:
    serde = made(Everything)
    data = serde.encode(value)
    assert serde.decode(data) == value
    assert serde.decode(memoryview(data)) == value


@law
@given(value=EVENTS)
def test_a_union_of_structs_needs_no_tag_on_the_wire(server: RegistryServer, value: Paid | Refused) -> None:
    serde = made(Paid | Refused)
    assert serde.decode(serde.encode(value)) == value
    assert "re-fused" not in serde.text


def test_structs_with_the_same_fields_are_distinguished_by_their_names(server: RegistryServer) -> None:
    one, two = (defstruct(name, [("x", int)], tag=name) for name in ("One", "Two"))
    serde = made(one | two)
    assert [serde.encode(kind(3))[5:] for kind in (one, two)] == [b"\0\x06", b"\x02\x06"]
    assert serde.decode(serde.encode(two(3))) == two(3)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (int, -7),
        (str, "äöü"),
        (list[Line], [Line("a"), Line("b", 2)]),
        (Row, {"name": "n", "points": [Point(1.0), Point(2.0, 3.0)]}),
        (Point, Point(1.0, 2.0)),
        (Tree, Tree(1, (Tree(2, (Tree(3),)), Tree(4)))),
    ],
)
def test_other_types_than_structs_have_schemas_too(server: RegistryServer, form: Any, value: Any) -> None:
    serde = made(form)
    assert serde.decode(serde.encode(value)) == value


def test_the_bytes_are_those_of_the_wire_format(server: RegistryServer) -> None:
    serde = made(Order)
    data = serde.encode(Order(1, "ada", -3, None, True))
    assert data == bytes.fromhex("00 00000001  02  06616461  05  00  01")
    assert serde.encode(Order(64, "", 0, "x")) == bytes.fromhex("00 00000001  8001  00  00  020278  00")
    assert json.loads(server.schemas[1]["schema"]) == {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "cents", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "test", "type": "boolean", "default": False},
        ],
    }
    server.add("elsewhere", '"long"')
    elsewhere = server.add("elsewhere", '{"type": "record", "name": "Order", "fields": []}')
    assert elsewhere == 3


V1 = defstruct("Thing", [("id", int)])
V2 = defstruct("Thing", [("id", int), ("cents", int, 7), ("note", str | None, None)])
WIDER = defstruct("Thing", [("id", float)])
OTHER = defstruct("Thing", [("id", str)])
NEEDS_MORE = defstruct("Thing", [("id", int), ("cents", int)])
ANOTHER_NAME = defstruct("Stuff", [("id", int)])


def test_a_field_that_was_added_with_a_default_gets_it(server: RegistryServer) -> None:
    assert made(V2).decode(made(V1).encode(V1(1))) == V2(1, 7, None)
    made(V2).encode(V2(1))
    assert server.subjects["orders-value"] == [1, 2]


def test_a_field_that_was_removed_is_left_out(server: RegistryServer) -> None:
    assert made(V1).decode(made(V2).encode(V2(1, 2, "x"))) == V1(1)


def test_numbers_may_widen(server: RegistryServer) -> None:
    assert made(WIDER).decode(made(V1).encode(V1(3))) == WIDER(3.0)


@pytest.mark.parametrize("form", [OTHER, NEEDS_MORE, ANOTHER_NAME])
def test_a_schema_that_cannot_be_resolved_is_reported(server: RegistryServer, form: Any) -> None:
    assert code_of(made(form).decode, made(V1).encode(V1(1))) == "incompatible-schema"


def test_another_version_of_a_union_is_read_by_names(server: RegistryServer) -> None:
    newer = defstruct("Paid", [("cents", int), ("by", str, "card")], tag="paid")
    data = made(Paid | Refused).encode(Paid(5))
    assert made(newer | Refused).decode(data) == newer(5, "card")


def test_keys_have_a_subject_of_their_own_and_must_be_stable(server: RegistryServer) -> None:
    topic = Topic("orders", Avro[Order](), key=Avro[Line]())
    assert topic.decode_key(topic.encode_key(Line("a"))) == Line("a")
    topic.encode_value(Order(1, "a", 2))
    assert server.subjects == {"orders-key": [1], "orders-value": [2]}
    unstable: Any
    for unstable in (Avro[dict[str, int]](), Avro[Line](latest=True)):
        with pytest.raises(ConfigError, match="unstable-key"):
            Topic("orders", Avro[Order](), key=unstable)


def test_equal_declarations_are_equal_and_options_count() -> None:
    assert Avro[Order]() == Avro[Order]() == made(Order)
    assert Avro[Order]() != Avro[Order](register=False)
    assert Avro[Order]().schema() == made(Order, "elsewhere", register=False).schema()
    assert repr(made(Order)) == "<serde avro[Order]>"
