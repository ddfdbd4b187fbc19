"""docs/reference/stores.md has every kind of store, every method and every option, and no other."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from tests.docs.reference import blocks, named_first, names, page, parameters, public, rows, sections

from tidegate import stores
from tidegate.stores import StoreBuilder

PAGE = page("stores")
CHAPTERS, KINDS = sections(PAGE, 2), sections(PAGE, 3)
BUILDERS = {name for name in stores.__all__ if inspect.isfunction(getattr(stores, name))}
STORES: dict[str, type[Any]] = {
    "key_value": stores.KeyValueStore,
    "timestamped": stores.TimestampedStore,
    "window": stores.WindowStore,
    "session": stores.SessionStore,
}
INSIDE = {
    stores.KeyValueStore: {"rows"},
    stores.TimestampedStore: {"rows"},
    StoreBuilder: {"build", "databases", "persistent", "rows_kind"},
}
"""Public for other modules of tidegate, not for users."""


def test_every_builder_is_in_the_table_with_its_parameters_and_has_a_chapter() -> None:
    listed = {names(row[0])[0] for row in rows(CHAPTERS["Kinds"].partition("### ")[0])}
    assert {one.split("(")[0].removeprefix("stores.") for one in listed} == BUILDERS == set(KINDS)
    for one in listed:
        name, given = one.removeprefix("stores.").rstrip(")").split("(")
        found = [part.split("=")[0].strip() for part in given.split(",") if part.strip() != "*"]
        assert sorted(found) == sorted(parameters(getattr(stores, name))), name


@pytest.mark.parametrize("kind", sorted(BUILDERS - {"timers"}))
def test_every_kind_has_an_example(kind: str) -> None:
    assert f"stores.{kind}(" in blocks(KINDS[kind])


@pytest.mark.parametrize("kind", STORES)
def test_every_method_of_a_kind_is_in_its_table_and_no_other(kind: str) -> None:
    found = public(STORES[kind], INSIDE.get(STORES[kind], ()))
    assert named_first(KINDS[kind]) == found


def test_every_option_of_a_builder_is_in_the_table_and_no_other() -> None:
    fields = set(StoreBuilder.__dataclass_fields__)
    options = public(StoreBuilder, INSIDE[StoreBuilder] | fields)
    assert named_first(CHAPTERS["Options of a builder"]) == options


def test_every_method_of_a_store_of_your_own_is_in_the_table_and_no_other() -> None:
    chapter = CHAPTERS["Stores of your own"]
    assert named_first(chapter) == public(stores.UserStore)
    assert [name for name in public(stores.StoreContext) if f"context.{name}" not in chapter] == []
