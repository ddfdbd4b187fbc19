"""Names and schemas: what people see, and what an upgrade compares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated, Any, Literal, NewType, TypedDict

import pytest
from msgspec import Struct

from tidegate.errors import ConfigError
from tidegate.serde import Json, MsgPack
from tidegate.serde.declared import type_name
from tidegate.serde.schema import type_schema

Cents = NewType("Cents", int)


class Order(Struct, tag="order"):
    """An order."""

    id: int
    description: str = ""


class Refund(Struct, tag="refund"):
    id: int
    parts: dict[int, Order] = {}


class Address(TypedDict):
    street: str


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        (Order, "Order"),
        (Order | Refund, "Order | Refund"),
        (list[Order], "list[Order]"),
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (int | None, "int | None"),
        (None, "None"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[int, "cents"], "int"),
        (Cents, "Cents"),
        (Address, "Address"),
        (Any, "Any"),
        (5, "5"),
    ],
)
def test_a_type_is_named_as_a_reader_would_write_it(declared: Any, name: str) -> None:
    assert type_name(declared) == name


def test_the_name_of_a_serde_is_format_and_type() -> None:
    assert Json[Order | Refund]().name == "json[Order | Refund]"
    assert MsgPack[list[int]]().name == "msgpack[list[int]]"
    assert repr(Json[Order]()) == "<serde json[Order]>"


def test_the_name_of_a_union_does_not_depend_on_which_order_came_first() -> None:
    one, two = Json[Order | Refund](), Json[Refund | Order]()
    assert (one.name, two.name) == ("json[Order | Refund]", "json[Refund | Order]")
    assert one == two
    assert hash(one) == hash(two)


def test_the_schema_is_json_with_sorted_keys() -> None:
    schema = Json[Order | Refund]().schema()
    assert json.dumps(schema) == json.dumps(schema, sort_keys=True)
    assert schema["format"] == "json"
    assert schema["type"]["$defs"]["Order"]["required"] == ["type", "id"]


def test_a_docstring_is_no_part_of_the_schema_but_a_field_called_description_is() -> None:
    order = Json[Order]().schema()["type"]["$defs"]["Order"]
    assert "description" not in order
    assert order["properties"]["description"] == {"default": "", "type": "string"}


def test_the_order_of_a_unions_members_does_not_count() -> None:
    assert Json[Order | Refund]().schema() == Json[Refund | Order]().schema()
    assert type_schema(list[int | str]) == type_schema(list[str | int])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Order, Refund),
        (list[int], list[float]),
        (dict[int, str], dict[str, str]),
        (tuple[int, str], tuple[int, int]),
        (int | str, int | bool),
    ],
)
def test_types_with_other_bytes_have_other_schemas(one: Any, two: Any) -> None:
    assert Json[one]().schema() != Json[two]().schema()
    assert Json[one]().schema() != MsgPack[one]().schema()


def test_a_type_without_a_schema_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="unsupported-type"):
        type_schema(object)


def test_the_schema_is_the_same_in_every_process() -> None:
    code = """if True:
        import json
        from typing import Literal
        from msgspec import Struct
        from tidegate.serde import Json
        class Part(Struct, frozen=True, tag=True):
            names: frozenset[str] = frozenset("abcdefgh")
        class Whole(Struct, tag=True):
            part: Part = Part()
            kind: Literal["x", "y", 1, 2] = "x"
            tags: frozenset[str] = frozenset({"red", "green", "blue"})
            other: Part | int | str | None = None
        print(json.dumps(Json[Part | Whole]().schema()))
    """
    found = set()
    for seed in ("1", "2", "3", "4"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout
        )
    assert len(found) == 1
