"""An internal topic holds the values of a source as they are only if nothing can have changed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidegate import App, Topic
from tidegate.dsl.stream import Stream
from tidegate.serde import Serde
from tidegate.serde.structured import Json
from tidegate.topology.node import NodeKind
from tidegate.topology.unchanged_values import holds_unchanged_values


class Order(msgspec.Struct, frozen=True):
    name: str
    cents: int = 0
    rate: float | None = None


class Mutable(msgspec.Struct):
    name: str


class Listed(msgspec.Struct, frozen=True):
    """Cannot be changed itself, but its list can."""

    name: str
    tags: list[str]


class Tagged(msgspec.Struct, frozen=True):
    name: str
    tags: list[str] = []


class Numbered(msgspec.Struct, frozen=True):
    name: str
    number: int = msgspec.field(default_factory=lambda: 7)


class Checked(msgspec.Struct, frozen=True):
    """Runs code each time that it is read, which may change it."""

    name: str

    def __post_init__(self) -> None:
        assert self.name


class Upper(Json[Order]):
    """A user's own format."""

    def encode(self, value: Order) -> bytes:
        return super().encode(value).upper()


def unchanged(kind: Any, steps: Callable[[Stream[Any, Any]], Stream[Any, Any]], last: str = "by") -> bool:
    app = App("shop")
    source: Topic[Any, Any] = Topic("in", kind)
    steps(app.stream(source)).count("counts")
    topology = app.build()
    nodes = topology.nodes.values()
    [node] = [one for one in nodes if one.kind is NodeKind.REPARTITION and one.name == last]
    return holds_unchanged_values(topology, node)


def grouped(stream: Stream[Any, Any]) -> Stream[Any, Any]:
    return stream.filter(bool).group_by("by", str)


def one_more(number: int) -> int:
    return number + 1


def looked_at(stream: Stream[Any, Any]) -> Stream[Any, Any]:
    return stream.peek(print).group_by("by", str)


def merged(stream: Stream[Any, Any]) -> Stream[Any, Any]:
    return stream.filter(bool).merge(stream.filter(bool)).group_by("by", str)


@pytest.mark.parametrize("kind", [Order, str, int, bytes, bool])
def test_keys_changed_and_records_dropped_leave_values_as_they_are(kind: type) -> None:
    assert unchanged(kind, grouped)


@pytest.mark.parametrize(
    "kind", [Mutable, Listed, Tagged, Numbered, Checked, float, dict[str, int], list[int]]
)
def test_values_that_may_change_on_their_way_are_written_again(kind: Any) -> None:
    assert not unchanged(kind, grouped)


def test_a_format_of_the_users_own_is_written_again() -> None:
    own: Serde[Order] = Upper()
    assert not unchanged(own, grouped)


@pytest.mark.parametrize("steps", [looked_at, merged])
def test_other_steps_between_are_not_taken_for_harmless(
    steps: Callable[[Stream[Any, Any]], Stream[Any, Any]],
) -> None:
    assert not unchanged(Order, steps)


def test_a_mapped_value_is_written_again() -> None:
    assert not unchanged(int, lambda stream: stream.map(one_more).group_by("by", str))


def test_values_go_through_two_internal_topics() -> None:
    assert unchanged(Order, lambda stream: grouped(stream).group_by("again", str), "again")
