"""Which serde a declared type gets, and which types get none."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Never,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import pytest
from msgspec import Meta, Struct

from tidegate.errors import ConfigError
from tidegate.serde import Json, MsgPack, Serde, serde_for

T = TypeVar("T")
CustomerId = NewType("CustomerId", str)
EuCustomerId = NewType("EuCustomerId", CustomerId)


class Order(Struct):
    id: int


class Totals(Struct):
    cents: int


class Page(Struct, Generic[T]):
    items: list[T]


@dataclass
class Reading:
    celsius: float


class Address(TypedDict):
    street: str


class Point(NamedTuple):
    x: int


class Colour(Enum):
    RED = "red"


class Name(str):
    __slots__ = ()


OLD_UNION = Union[Order, Totals]  # noqa: UP007 - the older spelling is another object at run time
OLD_OPTIONAL = Optional[Order]  # noqa: UP045


class Reversed(Serde[str]):
    name = "reversed"

    def encode(self, value: str) -> bytes:
        return value[::-1].encode()

    def decode(self, data: bytes) -> str:
        return data.decode()[::-1]

    def schema(self) -> dict[str, Any]:
        return {"format": "reversed"}


@pytest.mark.parametrize("serde", [Reversed(), Json[Order | str](), MsgPack[int]()], ids=lambda s: s.name)
def test_a_serde_is_used_as_it_is(serde: Serde[Any]) -> None:
    assert serde_for(serde) is serde


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        (bytes, "bytes"),
        (str, "str"),
        (int, "int"),
        (float, "float"),
        (bool, "bool"),
        (UUID, "uuid"),
        (datetime, "datetime"),
        (CustomerId, "str"),
        (EuCustomerId, "str"),
        (Order, "json[Order]"),
        (Page[Order], "json[Page[Order]]"),
        (Reading, "json[Reading]"),
        (Address, "json[Address]"),
        (Point, "json[Point]"),
        (Colour, "json[Colour]"),
        (list[Order], "json[list[Order]]"),
        (dict[str, Any], "json[dict[str, Any]]"),
        (tuple[int, str], "json[tuple[int, str]]"),
        (set[str], "json[set[str]]"),
        (frozenset[int], "json[frozenset[int]]"),
        (Literal["a", "b"], "json[Literal['a', 'b']]"),
        (Annotated[int, Meta(ge=0)], "json[int]"),
        (date, "json[date]"),
        (Decimal, "json[Decimal]"),
    ],
)
def test_a_type_gets_its_serde(declared: Any, name: str) -> None:
    assert serde_for(declared).name == name


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (None, "None"),
        (type(None), "None"),
        (Any, "Any"),
        (object, "object"),
        (Never, "Never"),
        (inspect.Parameter.empty, "no type"),
        (T, "T"),
        (list[T], r"list\[T\]"),  # type: ignore[valid-type]
        (Page, "Page"),
        ("Order", "'Order'"),
        (Json, "Json"),
        (Json[Order], r"Json\[Order\]"),
        (Reversed, "Reversed"),
        (list, "list"),
        (dict, "dict"),
        (Name, "Name"),
        (complex, "complex"),
        (Callable[[], int], "Callable"),
        (lambda: 5, "lambda"),
        (5, "5"),
        (list[complex], "complex"),
    ],
)
def test_a_type_that_is_too_general_is_refused_by_name(declared: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        serde_for(declared)
    assert caught.value.code == "missing-serde"
    assert caught.value.hint


@pytest.mark.parametrize("declared", [Order | Totals, OLD_UNION, Order | Totals | None])
def test_a_union_must_name_its_format(declared: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        serde_for(declared)
    assert (caught.value.code, caught.value.hint) == ("union-needs-format", "Json[Order | Totals]()")


@pytest.mark.parametrize("declared", [Order | None, OLD_OPTIONAL])
def test_none_in_a_type_is_refused_because_it_is_a_tombstone(declared: Any) -> None:
    with pytest.raises(ConfigError, match="tombstone and needs no type: declare Order") as caught:
        serde_for(declared)
    assert caught.value.code == "union-needs-format"


def test_a_serde_class_in_place_of_an_instance_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"call it: Json\[Order\]\(\)"):
        serde_for(Json[Order])
