"""One story against the registry of the suite and against a real one: they must answer alike."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct, defstruct
from tests.needs import missing_for_registry
from tests.serde.avro_types import Everything, Order, Paid, Refused, Tree
from tests.serde.real_registry import java_21, real_registry
from tests.serde.registry_server import RegistryServer

from tidegate import App, Avro, JsonSchema, RegistryError, SerdeError, Topic
from tidegate.serde.current_registry import current_registry
from tidegate.serde.registry_settings import use_registry
from tidegate.testing.driver import Driver

ORDER = Order(1, "ada", 2)


@pytest.fixture(scope="module", params=["suite", pytest.param("real", marks=pytest.mark.slow)])
def either(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    if request.param == "suite":
        with RegistryServer() as server:
            yield server.settings
        return
    if reason := missing_for_registry():
        pytest.skip(reason)
    java = java_21()
    assert java is not None
    with real_registry(java, tmp_path_factory.mktemp("registry")) as settings:
        yield settings


@pytest.fixture
def topic(either: dict[str, Any]) -> Iterator[str]:
    """The name of a topic that no other test uses."""
    before = use_registry(either)
    yield f"t-{uuid.uuid4().hex}"
    use_registry(before)


@pytest.mark.parametrize("form", [Avro, JsonSchema], ids=lambda form: form.__name__)
def test_what_is_registered_is_found_by_others(topic: str, either: dict[str, Any], form: Any) -> None:
    writer: Any = Topic(topic, form[Order]()).value_serde
    other: Any = Topic(topic, form[Order](register=False)).value_serde
    data = writer.encode(ORDER)
    use_registry({**either, "timeout": 6})  # as another process
    assert other.decode(data) == ORDER
    assert other.encode(ORDER) == data


@pytest.mark.parametrize("declared", [Everything, Paid | Refused, Tree, list[Order], dict[str, int]])
@pytest.mark.parametrize("form", [Avro, JsonSchema], ids=lambda form: form.__name__)
def test_every_schema_that_we_make_is_taken(topic: str, form: Any, declared: Any) -> None:
    serde: Any = Topic(topic, form[declared]()).value_serde
    number = current_registry().register(topic, serde.kind, serde.text)
    assert current_registry().schema(number).kind == serde.kind


def test_ids_and_subjects_that_are_not_there(topic: str) -> None:
    with pytest.raises(SerdeError, match="unknown-schema"):
        Topic(topic, Avro[Order]()).value_serde.decode(b"\0\0\x0f\0\0\0")
    for options in ({"register": False}, {"latest": True}):
        with pytest.raises(RegistryError, match="not-registered"):
            Topic(topic, Avro[Order](**options)).value_serde.encode(ORDER)  # type: ignore[arg-type]


def test_a_new_field_with_a_default_is_taken_and_one_without_is_refused(topic: str) -> None:
    old, new, wrong = (
        defstruct("Thing", [("id", int), *more])
        for more in ([], [("cents", int, 7)], [("more", int), ("cents", int, 7)])
    )
    first = Topic(topic, Avro[old]()).value_serde  # type: ignore[valid-type]
    second = Topic(topic, Avro[new]()).value_serde  # type: ignore[valid-type]
    assert second.decode(first.encode(old(1))) == new(1, 7)
    assert first.decode(second.encode(new(1, 2))) == old(1)
    latest = Topic(topic, Avro[old](latest=True)).value_serde  # type: ignore[valid-type]
    assert latest.encode(old(1)) == second.encode(new(1, 7))
    with pytest.raises(RegistryError, match="schema-refused"):
        Topic(topic, Avro[wrong]()).value_serde.encode(wrong(1, 2, 3))  # type: ignore[valid-type]


class Total(Struct, frozen=True):
    cents: int = 0


def as_total(order: Order) -> Total:
    return Total(order.cents)


def test_a_topology_with_schemas(topic: str) -> None:
    source, target = Topic(topic, Avro[Order]()), Topic(f"{topic}-out", JsonSchema[Total]())
    app = App("schemas")
    app.stream(source).map(as_total).to(target)
    with Driver(app) as d:
        d.send(source, "a", ORDER, Order(2, "b", 30))
        d.run()
        assert d.values(target) == [Total(2), Total(30)]
