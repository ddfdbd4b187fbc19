"""`Json` and `MsgPack`: the type in brackets, round trips, and refusal."""

from __future__ import annotations

import gc
import math
import tracemalloc
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, Union

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct, defstruct
from tests.repetitions import repeated

from tidegate.errors import ConfigError, SerdeError
from tidegate.serde import Json, MsgPack, Serde

pytestmark = pytest.mark.soak
law = settings(deadline=None, max_examples=repeated(25, soak=300))
T = TypeVar("T")
FORMATS: list[Any] = [Json, MsgPack]
each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda cls: cls.__name__)


class Order(Struct, frozen=True):
    id: int
    cents: int
    note: str = ""
    weight: float | None = None


class GiftOrder(Order, frozen=True):
    ribbon: str = "red"


class Totals(Struct, frozen=True):
    id: int = 0
    cents: int = 0


class Started(Struct, tag="started", frozen=True):
    title: str


class Done(Struct, tag="done", frozen=True):
    seconds: float


class Tree(Struct, frozen=True):
    children: tuple[Tree, ...] = ()


class Picky(Struct, frozen=True):
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise KeyError(self.x)


@dataclass(frozen=True)
class Reading:
    celsius: float
    tags: list[str] = field(default_factory=list)


class Address(TypedDict):
    street: str


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Foreign:
    pass


words = st.text(st.characters(exclude_categories=["Cs"]))
int64s = st.integers(-(2**63), 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
orders = st.builds(Order, int64s, int64s, words, finite | st.none())
CASES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "struct": (Order, orders),
    "union": (Started | Done, st.builds(Started, words) | st.builds(Done, finite)),
    "dataclass": (Reading, st.builds(Reading, finite, st.lists(words))),
    "typed dict": (Address, st.fixed_dictionaries({"street": words})),
    "named tuple": (Point, st.builds(Point, int64s, int64s)),
    "enum": (Colour, st.sampled_from(Colour)),
    "list": (list[Order], st.lists(orders)),
    "dict": (dict[str, int], st.dictionaries(words, int64s)),
    "dict of ints": (dict[int, Colour], st.dictionaries(int64s, st.sampled_from(Colour))),
    "tuple": (tuple[int, str], st.tuples(int64s, words)),
    "set": (set[str], st.sets(words)),
    "recursive": (Tree, st.recursive(st.just(Tree()), lambda kids: st.builds(Tree, st.tuples(kids, kids)))),
    "str": (str, words),
    "float": (float, finite),
}
each_type = pytest.mark.parametrize(("declared", "values"), CASES.values(), ids=CASES)


@each_format
@each_type
@law
@given(data=st.data())
def test_every_value_comes_back_as_it_was(
    form: Any, declared: Any, values: st.SearchStrategy[Any], data: Any
) -> None:
    serde: Serde[Any] = form[declared]()
    value = data.draw(values)
    encoded = serde.encode(value)
    assert type(encoded) is bytes
    assert serde.decode(encoded) == value
    assert serde.decode(memoryview(encoded)) == value  # type: ignore[arg-type]
    assert serde.encode(serde.decode(encoded)) == encoded or not serde.stable


json_like = st.recursive(
    st.none() | st.booleans() | int64s | st.floats() | words,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(words, parts, max_size=4),
    max_leaves=8,
)
FOREIGN = {Json: json_like.map(msgspec.json.encode), MsgPack: json_like.map(msgspec.msgpack.encode)}


@each_format
@each_type
@law
@given(data=st.data())
def test_any_bytes_are_read_or_refused_and_nothing_else_happens(
    form: Any, declared: Any, values: st.SearchStrategy[Any], data: Any
) -> None:
    serde: Serde[Any] = form[declared]()
    whole = serde.encode(data.draw(values))
    position = data.draw(st.integers(0, len(whole)))
    middle = data.draw(st.binary(max_size=4))
    broken = whole[:position] + middle + whole[position + len(middle) :]
    garbage = data.draw(st.just(broken) | st.binary(max_size=40) | FOREIGN[form])
    try:
        value = serde.decode(garbage)
    except SerdeError:
        return
    again = serde.decode(serde.encode(value))
    assert again == value or repr(again) == repr(value), "repr, because NaN does not equal itself"


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"", "truncated"),
        (b'{"id":1', "truncated"),
        (b'{"id":1,"cents":"x"}', r"Expected `int`, got `str` - at `\$.cents`"),
        (b'{"id":1}', "missing required field `cents`"),
        (b'{"id":NaN,"cents":1}', "invalid character"),
        (b'{"id":1,"cents":1,"note":"\xff"}', "utf-8"),
        (b'{"id":1,"cents":1,"note":"\\ud800 and more"}', "surrogate"),
        (b'{"id":1,"cents":1,"weight":1e999}', "out of range"),
        (b'{"id":1,"cents":' + b"9" * 5000 + b"}", "out of range"),
        (b"null", "Expected `object`, got `null`"),
        (b"{} {}", "missing|trailing"),
    ],
)
def test_what_is_wrong_with_the_bytes_is_reported(garbage: bytes, message: str) -> None:
    with pytest.raises(SerdeError, match=message) as caught:
        Json[Order]().decode(garbage)
    assert caught.value.code == "undecodable"


@pytest.mark.parametrize("size", [1_000, 1_000_000])
@pytest.mark.parametrize(
    ("form", "declared", "opening"),
    [
        (Json, Any, b"["),
        (Json, Tree, b'{"children":['),
        (MsgPack, Any, b"\x91"),
        (MsgPack, Tree, b"\x81\xa8children\x91"),
    ],
)
def test_deeply_nested_bytes_are_refused(form: Any, declared: Any, opening: bytes, size: int) -> None:
    """From Python 3.12 on a thousand levels are not too many, and the bytes end before the value does."""
    message = "nested too deeply" if size > 1_000 else "nested too deeply|truncated"
    with pytest.raises(SerdeError, match=message) as caught:
        form[declared]().decode(opening * size)
    assert caught.value.code == "undecodable"


@each_format
def test_a_deeply_nested_value_is_refused(form: Any) -> None:
    tree = Tree()
    for _ in range(5_000):
        tree = Tree((tree,))
    with pytest.raises(SerdeError, match="nested too deeply"):
        form[Tree]().encode(tree)


@pytest.mark.parametrize("bomb", [b"\xdd\x7f\xff\xff\xff", b"\xdc\xff\xff" * 900, b"\xdf\x7f\xff\xff\xff"])
def test_a_length_that_the_bytes_do_not_have_takes_no_memory(bomb: bytes) -> None:
    serde = MsgPack[list[Any]]()
    tracemalloc.start()
    try:
        with pytest.raises(SerdeError, match="undecodable"):
            serde.decode(bomb)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@each_format
def test_whatever_a_users_class_raises_while_reading_is_a_serde_error(form: Any) -> None:
    sane = form[Totals]().encode(Totals())
    assert form[Totals]().decode(sane) == Totals()
    with pytest.raises(SerdeError, match="-5"):
        form[Picky]().decode(form[dict[str, int]]().encode({"x": -5}))


@each_format
@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Totals, Order(1, 2)),
        (Order, {"id": 1, "cents": 2}),
        (Order, None),
        (Any, None),
        (Started | Done, Order(1, 2)),
        (Reading, Order(1, 2)),
        (Address, Order(1, 2)),
        (Point, (1, 2)),
        (list[int], (1, 2)),
        (dict[str, int], [("a", 1)]),
        (int, True),
        (int | str, True),
        (Colour, "red"),
        (Annotated[int, Meta(ge=0)], "1"),
        (Union[Started, Done], "1"),  # noqa: UP007 - the older spelling
    ],
)
def test_a_value_of_another_class_is_refused(form: Any, declared: Any, value: Any) -> None:
    with pytest.raises(SerdeError) as caught:
        form[declared]().encode(value)
    assert caught.value.code == "wrong-type"


@each_format
def test_a_subclass_is_refused_because_its_fields_would_be_lost(form: Any) -> None:
    with pytest.raises(SerdeError, match="would come back as its parent"):
        form[Order]().encode(GiftOrder(1, 2))


def test_values_that_read_back_as_equal_are_taken() -> None:
    assert Json[float]().decode(Json[float]().encode(1)) == 1.0
    assert Json[float | str]().encode(1) == b"1"
    assert Json[tuple[int, int]]().encode(Point(1, 2)) == b"[1,2]"
    assert Json[bool | int]().encode(True) == b"true"


@each_format
@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, object(), 10**5000], ids=type)
def test_what_the_format_cannot_hold_is_refused(form: Any, value: Any) -> None:
    with pytest.raises(SerdeError) as caught:
        form[Any]().encode(value)
    assert caught.value.code == "unencodable"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_refuses_nan_and_infinity_instead_of_writing_null(number: float) -> None:
    for declared, value in (
        (Order, Order(1, 2, weight=number)),
        (dict[str, float], {"a": 1.0, "b": number}),
        (tuple[float, ...], (number,)),
        (list[Reading], [Reading(1.0), Reading(number)]),
        (Any, {"deep": [{"deeper": number}]}),
    ):
        with pytest.raises(SerdeError, match="no NaN"):
            Json[declared]().encode(value)  # type: ignore[valid-type]
    assert Json[Order]().encode(Order(1, 2, note="null")) == b'{"id":1,"cents":2,"note":"null","weight":null}'
    assert repr(MsgPack[float]().decode(MsgPack[float]().encode(number))) == repr(number)


@law
@given(st.lists(st.floats() | st.none() | st.integers() | st.binary(), max_size=6))
def test_json_is_refused_exactly_when_a_float_is_not_finite(values: list[Any]) -> None:
    finite = all(math.isfinite(value) for value in values if isinstance(value, float))
    try:
        Json[list[Any]]().encode([*values, None])
    except SerdeError:
        assert not finite
    else:
        assert finite


def test_text_that_looks_like_nan_in_another_format_is_no_nan() -> None:
    lookalike = b"\xcb\x7f\xf8" * 3
    assert Json[list[Any]]().encode([lookalike, 2**80, None])
    assert Json[list[Any]]().encode([lookalike, None, 1.5])


def test_null_is_never_read_as_a_value() -> None:
    with pytest.raises(SerdeError, match="tombstone"):
        Json[Any]().decode(b"null")


def test_a_dict_keeps_the_order_that_it_has() -> None:
    serde = Json[dict[str, int]]()
    assert serde.encode({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert serde.encode({"a": 2, "b": 1}) == b'{"a":2,"b":1}'


@each_format
def test_one_type_has_one_class_and_equal_serdes(form: Any) -> None:
    assert form[Started | Done] is form[Started | Done]
    assert form[Order]() == form[Order]()
    assert hash(form[Order]()) == hash(form[Order]())
    assert form[Order]() != form[Totals]()
    assert form[Order]() != "json"
    assert isinstance(form[Order](), form)


def test_formats_do_not_share_their_classes() -> None:
    assert Json[Order]().encode(Order(1, 2)) != MsgPack[Order]().encode(Order(1, 2))
    assert Json[Order]() != MsgPack[Order]()


def test_classes_of_types_that_are_gone_are_gone() -> None:
    gc.collect()
    before = len(Json._made)
    for _ in range(10):
        Json[defstruct("Local", ["x"])]()  # type: ignore[misc, operator]
    gc.collect()
    assert len(Json._made) <= before


def test_a_type_that_cannot_be_hashed_still_works() -> None:
    declared = Annotated[int, ["no hash"]]
    assert Json[declared]().decode(b"5") == 5


@each_format
@pytest.mark.parametrize("unfilled", [None, T, list[T]])  # type: ignore[valid-type]
def test_a_format_without_a_type_is_an_error(form: Any, unfilled: Any) -> None:
    bare = form if unfilled is None else form[unfilled]
    with pytest.raises(ConfigError, match="which type") as caught:
        bare()
    assert (caught.value.code, caught.value.hint) == ("missing-serde", f"{form.__name__}[Order]()")


@each_format
@pytest.mark.parametrize(
    ("declared", "code", "message"),
    [
        (Foreign, "unsupported-type", "Foreign"),
        (list[Foreign], "unsupported-type", "Foreign"),
        (Order | Totals, "unsupported-type", "tagged"),
        (Order | None, "optional-value", "tombstone"),
        (None, "optional-value", "tombstone"),
        ("Order", "unsupported-type", "Order"),
        ((int, str), "unsupported-type", "not supported"),
    ],
)
def test_a_type_that_cannot_be_written_is_an_error_at_once(
    form: Any, declared: Any, code: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        form[declared]()
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize(
    ("declared", "stable"),
    [
        (Order, True),
        (tuple[int, str], True),
        (Tree, True),
        (Colour, True),
        (dict[str, int], False),
        (Address, False),
        (list[dict[str, int]], False),
        (frozenset[str], False),
        (list[Any], False),
    ],
)
def test_only_types_without_dicts_and_sets_are_stable(declared: Any, stable: bool) -> None:
    assert Json[declared]().stable is stable
