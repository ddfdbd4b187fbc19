"""Schemas of types, and schemas that are given."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema
from msgspec import Struct, defstruct, field
from tests.serde.avro_types import (
    Color,
    Everything,
    Line,
    Order,
    Point,
    Tree,
    made,
)
from tests.serde.registry_server import RegistryServer

from tidegate import Avro, ConfigError


def test_the_schema_of_everything_is_avro_and_the_same_in_every_process() -> None:
    text = made(Everything).text
    parse_schema(json.loads(text))
    fields = {one["name"]: one for one in json.loads(text)["fields"]}
    assert fields["at"]["type"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert fields["local"]["type"] == {"type": "long", "logicalType": "local-timestamp-micros"}
    assert fields["color"]["type"]["symbols"] == ["red", "blue"]
    assert (fields["size"]["type"], fields["level"]["type"]) == ("string", "long")
    assert fields["more"] == {"name": "more", "type": ["null", "long", "string"], "default": None}
    assert fields["maybe"]["type"] == ["null", "Line"]
    assert fields["point"]["type"]["fields"][1] == {"name": "y", "type": "double", "default": 0.5}
    assert fields["few"]["default"] == []


class Defaults(Struct, frozen=True):
    at: datetime = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    day: date = date(1970, 1, 3)
    data: bytes = b"\xff"
    color: Color = Color.BLUE
    prio: int | None = 5
    line: Line = Line("x", 2)
    lines: list[Line] = field(default_factory=list)
    uid: UUID = UUID(int=0)
    point: Point = field(default_factory=lambda: Point(0.0))
    either: int | str = 3


def test_defaults_of_the_type_are_defaults_of_the_schema() -> None:
    found = {one["name"]: one for one in json.loads(made(Defaults).text)["fields"]}
    defaults = {name: one["default"] for name, one in found.items() if "default" in one}
    assert defaults == {
        "at": 1_000_000,
        "day": 2,
        "data": "\u00ff",
        "color": "blue",
        "prio": 5,
        "line": {"sku": "x", "count": 2},
        "lines": [],
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    assert found["prio"]["type"] == ["long", "null"]


def test_names_are_those_given(server: RegistryServer) -> None:
    serde = made(Order, name="com.shop.OrderPlaced")
    assert json.loads(serde.text)["name"] == "com.shop.OrderPlaced"
    nested = json.loads(made(Tree, name="com.shop.Tree").text)
    assert nested["fields"][1]["type"]["items"] == "com.shop.Tree"
    assert serde.decode(serde.encode(Order(1, "a", 2))) == Order(1, "a", 2)


UNSUPPORTED: list[Any] = [
    Any,
    dict[str, Any],
    Decimal,
    tuple[int, str],
    dict[date, int],
    defstruct("Odd", [("a", int)], rename={"a": "a-b"}),
    defstruct("Listed", [("a", int)], array_like=True),
    datetime | int,
    defstruct("Twice", [("a", Line), ("b", defstruct("Line", [("z", int)]))]),
]


@pytest.mark.parametrize("form", UNSUPPORTED)
def test_types_without_a_form_are_reported_when_declared(form: Any) -> None:
    with pytest.raises(ConfigError) as error:
        Avro[form]()
    assert error.value.code == "unsupported-type"
    assert "schema=" in error.value.hint


GIVEN = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "int"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}}]}"""


class Priced(Struct, frozen=True):
    id: int
    at: datetime
    price: Decimal


def test_a_given_schema_is_used_as_it_is_from_text_or_file(server: RegistryServer, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(GIVEN)
    moment = datetime(1970, 1, 1, 0, 0, 0, 3000, UTC)
    for given_as in (GIVEN, file):
        serde = made(Priced, schema=given_as, subject="record-name")
        data = serde.encode(Priced(1, moment, Decimal("1.25")))
        assert data == bytes.fromhex("00 00000001  02  06  027d")
        assert serde.decode(data) == Priced(1, moment, Decimal("1.25"))
    assert server.subjects == {"shop.Order": [1]}
    assert server.schemas[1]["schema"] == GIVEN


def test_plain_dicts_go_with_a_given_schema(server: RegistryServer) -> None:
    serde = made(dict[str, Any], schema=made(Order).text)
    assert serde.decode(serde.encode({"id": 1, "customer": "a", "cents": 2})) == {
        "id": 1,
        "customer": "a",
        "cents": 2,
        "note": None,
        "test": False,
    }


@pytest.mark.parametrize("text", ["", "{", "[]]", '{"type": "rekord"}', '{"type": "record", "fields": []}'])
def test_an_invalid_schema_is_refused_when_declared(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bad-schema"):
        Avro[Order](text)
    with pytest.raises(ConfigError, match="bad-schema"):
        Avro[Order](tmp_path / "not-there.avsc")


def test_references_of_a_strangers_schema_are_followed(server: RegistryServer) -> None:
    server.add("line", made(Line).text)
    text = '{"type": "record", "name": "Box", "fields": [{"name": "line", "type": "Line"}]}'
    references = [{"name": "Line", "subject": "line", "version": 1}]
    number = server.add("box", text, references=references)
    box = defstruct("Box", [("line", Line)])
    assert made(box).decode(b"\0" + number.to_bytes(4, "big") + b"\x02a\x04") == box(Line("a", 2))
