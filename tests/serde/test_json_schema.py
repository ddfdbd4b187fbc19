"""`JsonSchema`: JSON behind the head of the wire format, with its schema in the registry."""

from __future__ import annotations

import json
from typing import Any

import msgspec
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
    Refused,
    Tree,
    code_of,
    law,
)
from tests.serde.registry_server import RegistryServer

from tidegate import ConfigError, JsonSchema, SerdeError, Topic


def made(form: Any, **options: Any) -> Any:
    return Topic("orders", JsonSchema[form](**options)).value_serde


@law
@given(value=EVERYTHING)
def test_what_is_written_is_read_back(server: RegistryServer, value: Everything) -> None:
    if value.real in (float("inf"), float("-inf")):
        value = msgspec.structs.replace(value, real=0.0)
    value = msgspec.structs.replace(value, point=msgspec.json.decode(b'{"x": 1.0}', type=type(value.point)))
    serde = made(Everything)
    data = serde.encode(value)
    assert serde.decode(data) == serde.decode(memoryview(data)) == value


@law
@given(value=EVENTS)
def test_unions_are_read_back(server: RegistryServer, value: Paid | Refused) -> None:
    assert made(Paid | Refused).decode(made(Paid | Refused).encode(value)) == value


def test_the_bytes_are_the_head_and_json(server: RegistryServer) -> None:
    serde = made(Line)
    assert serde.encode(Line("a", 2)) == b'\0\0\0\0\1{"sku":"a","count":2}'
    assert server.schemas[1]["schemaType"] == "JSON"
    assert json.loads(server.schemas[1]["schema"]) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Line",
        "type": "object",
        "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        "required": ["sku"],
    }


def test_a_class_that_refers_to_itself_is_defined_and_texts_are_left_out() -> None:
    schema = json.loads(made(Tree).text)
    assert schema["title"] == "Tree"
    assert schema["definitions"]["Tree"]["properties"].keys() == {"value", "children"}
    assert "description" not in made(Everything).text
    assert set(json.loads(made(Paid | Refused).text)["definitions"]) == {"Paid", "Refused", "Line"}


def test_subjects_and_given_schemas(server: RegistryServer) -> None:
    made(Line, subject="record-name", name="com.shop.Line").encode(Line("a"))
    given_text = '{"title": "Mine", "type": "object"}'
    made(Line, schema=given_text, subject="topic-record-name").encode(Line("a"))
    assert list(server.subjects) == ["com.shop.Line", "orders-Mine"]
    assert server.schemas[2]["schema"] == given_text
    for wrong in ("", "[]", "{"):
        with pytest.raises(ConfigError, match="bad-schema"):
            JsonSchema[Line](wrong)


def test_the_id_of_the_latest_schema_is_written(server: RegistryServer) -> None:
    server.add("orders-value", '{"type": "object"}', "JSON")
    newest = server.add("orders-value", '{"type": "object", "title": "newest"}', "JSON")
    assert made(Line, latest=True).encode(Line("a"))[:5] == b"\0" + newest.to_bytes(4, "big")


def test_fields_may_come_and_go(server: RegistryServer) -> None:
    old, new = defstruct("Thing", [("id", int)]), defstruct("Thing", [("id", int), ("cents", int, 7)])
    assert made(new).decode(made(old).encode(old(1))) == new(1, 7)
    assert made(old).decode(made(new).encode(new(1, 2))) == old(1)


def test_refusal_has_the_names_of_avro(server: RegistryServer) -> None:
    serde = made(Order)
    good = serde.encode(Order(1, "ada", 2))
    assert code_of(serde.decode, b"\0\0") == "truncated"
    assert code_of(serde.decode, b"{}") == "truncated"
    assert code_of(serde.decode, b'{"id": 1}') == "no-magic-byte"
    assert code_of(serde.decode, good[:-1]) == "undecodable"
    assert code_of(serde.decode, good[:5] + b"null") == "undecodable"
    assert code_of(serde.decode, b"\0\0\0\0\x63{}") == "unknown-schema"
    avro = server.add("other", '"long"')
    assert code_of(serde.decode, b"\0" + avro.to_bytes(4, "big") + b"{}") == "incompatible-schema"
    with pytest.raises(SerdeError, match="unencodable"):
        made(float).encode(float("nan"))
