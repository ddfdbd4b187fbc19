"""Which names may be given, and which names are made from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.names import check_header, check_name

legal = st.text("abcXYZ019._-", min_size=1, max_size=200)


@pytest.mark.parametrize(
    "name", ["a", "orders", "Orders.v2-x_y", "...", "-", "_x", "g2", "a.g", "a.gx2", "a.g2x", "z" * 200]
)
def test_a_plain_name_is_taken_as_it_is(name: str) -> None:
    assert check_name("topic", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "z" * 201,
        "orders\n",
        "\norders",
        "a b",
        "a/b",
        "../x",
        "a\\b",
        "a\0",
        "é",
        "a%2e",
        "a:b",
        "٣",
        None,
        b"x",
        5,
    ],
)
def test_an_illegal_name_is_refused_with_its_kind(name: Any) -> None:
    with pytest.raises(ConfigError, match="store name") as caught:
        check_name("store", name)
    assert (caught.value.code, bool(caught.value.hint)) == ("illegal-name", True)


@pytest.mark.parametrize("name", ["orders.g2", ".g1", "a.g0", "a.g2.g34", "__consumer_offsets", "__"])
def test_a_name_that_tidegate_or_kafka_could_use_is_reserved(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_name("topic", name)
    assert caught.value.code == "reserved-name"


@settings(deadline=None)
@given(st.text() | legal)
def test_a_name_is_taken_only_if_it_is_safe_as_topic_file_and_url(name: str) -> None:
    try:
        check_name("topic", name)
    except ConfigError:
        return
    assert re.match(r"\A[a-zA-Z0-9._-]{1,200}\Z", name)
    assert name not in {".", ".."}


def test_a_long_name_is_shortened_in_the_message_and_control_characters_are_escaped() -> None:
    with pytest.raises(ConfigError) as caught:
        check_name("topic", "\x1b[31m" + "x" * 10_000)
    assert len(caught.value.message) < 200
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("name", ["trace", "Tidegate.x", "tidegate", "any text: é", ""])
def test_a_foreign_header_is_taken(name: str) -> None:
    assert check_header(name) == name


@pytest.mark.parametrize("name", ["tidegate.owner", "tidegate."])
def test_our_headers_are_reserved(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_header(name)
    assert caught.value.code == "reserved-name"


@pytest.mark.parametrize("name", ["\ud800", None, 5, b"trace"])
def test_a_header_name_that_is_no_text_is_illegal(name: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check_header(name)
    assert caught.value.code == "illegal-name"


def test_what_is_born_in_generation_1_has_kafka_streams_names() -> None:
    assert names.changelog("orders", "totals") == "orders-totals-changelog"
    assert names.repartition("wordcount", "by-word") == "wordcount-by-word-repartition"


def test_what_is_born_later_carries_its_generation() -> None:
    assert names.changelog("orders", "totals", 4) == "orders-totals.g4-changelog"
    assert names.repartition("orders", "by-id", born=12) == "orders-by-id.g12-repartition"


def test_a_staging_topic_carries_its_generation_from_the_first_on() -> None:
    assert names.staging("orders", "totals", 1) == "orders-totals.g1-staging"
    assert names.staging("orders", "totals", 12) == "orders-totals.g12-staging"


def test_the_topics_of_an_app() -> None:
    assert names.positions("orders") == "orders-positions"
    assert names.control("orders") == "orders-control"
    assert names.status("orders") == "orders-status"
    assert names.dead_letters("orders") == "orders-dead-letters"


def test_the_ids_of_writers() -> None:
    assert names.writer_id("orders", 3, 17, 0) == "orders.g3.17.0"
    assert names.driver_id("orders", "active") == "orders.active.driver"


@settings(deadline=None)
@given(legal, legal, st.integers(1, 99))
def test_names_of_two_generations_of_a_store_never_meet(app: str, store: str, born: int) -> None:
    try:
        later, first = names.changelog(app, store, born + 1), names.changelog(app, store)
    except ConfigError as error:
        assert error.code in {"illegal-name", "reserved-name"}  # noqa: PT017 - either is right
        return
    assert first != later
    assert max(len(first), len(later)) <= 249


def test_an_internal_name_that_kafka_cannot_hold_is_refused() -> None:
    app, store = "a" * 120, "s" * 118
    assert len(names.changelog(app, store)) == 249
    with pytest.raises(ConfigError, match="250 characters") as caught:
        names.changelog(app, store + "s")
    assert caught.value.code == "illegal-name"
    with pytest.raises(ConfigError, match="illegal-name"):
        names.changelog(app, store, 2)


MAKERS: list[Callable[[str], str]] = [
    names.positions,
    names.control,
    names.status,
    names.dead_letters,
    lambda app: names.changelog(app, "s"),
    lambda store: names.changelog("a", store),
    lambda name: names.repartition("a", name),
    lambda topic: names.staging("a", topic, 1),
    lambda app: names.writer_id(app, 1, 1, 1),
    lambda app: names.driver_id(app, "active"),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("part", ["a/b", "", "x.g2"])
def test_no_internal_name_is_made_from_a_bad_part(make: Callable[[str], str], part: str) -> None:
    with pytest.raises(ConfigError, match=r"illegal-name|reserved-name"):
        make(part)


def test_generations_count_from_1() -> None:
    with pytest.raises(ConfigError, match="count from 1"):
        names.changelog("a", "s", 0)
