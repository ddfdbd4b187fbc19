"""Bytes and values that `Avro` refuses, each by name, and bytes that mean harm."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serde.avro_types import (
    Everything,
    Line,
    Order,
    Paid,
    code_of,
    law,
    made,
)
from tests.serde.registry_server import RegistryServer

from tidegate import SerdeError


def test_bytes_that_are_none_of_the_format_are_reported_by_name(server: RegistryServer) -> None:
    serde = made(Order)
    good = serde.encode(Order(1, "ada", 2))
    assert code_of(serde.decode, b"") == "truncated"
    assert code_of(serde.decode, b"\0\0\0\0") == "truncated"
    assert code_of(serde.decode, b'{"id": 1}') == "no-magic-byte"
    assert code_of(serde.decode, b"\0\0\0\0\x63" + good[5:]) == "unknown-schema"
    assert code_of(serde.decode, good + b"\0") == "truncated"
    json_id = server.add("other", '{"type": "object"}', "JSON")
    assert code_of(serde.decode, b"\0" + json_id.to_bytes(4, "big") + b"{}") == "incompatible-schema"


@law
@given(cut=st.integers(0, 12))
def test_bytes_cut_off_anywhere_are_refused_as_truncated(server: RegistryServer, cut: int) -> None:
    serde = made(Order)
    good = serde.encode(Order(70_000, "ada", 2, "nothing"))
    assert code_of(serde.decode, good[:cut]) == "truncated"


@law
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_serde_error(server: RegistryServer, data: bytes) -> None:
    serde = made(Everything)
    head = b"\0" + server.add("any", serde.text).to_bytes(4, "big")
    with suppress(SerdeError):
        serde.decode(head + data)


def test_an_unknown_id_is_looked_up_once(server: RegistryServer) -> None:
    serde = made(Order)
    for _ in range(5):
        assert code_of(serde.decode, b"\0\0\0\0\x63\x02") == "unknown-schema"
    assert server.requests.count("GET /schemas/ids/99") == 3


def test_nesting_without_end_is_an_error_and_not_the_end_of_the_process(server: RegistryServer) -> None:
    text = '{"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}'
    serde = made(dict[str, Any], schema=text)
    head = b"\0" + server.add("x", text).to_bytes(4, "big")
    assert serde.decode(head + b"\x02\x02\0") == {"next": {"next": {"next": None}}}
    assert code_of(serde.decode, head + b"\x02" * 200_000 + b"\0") == "undecodable"


@pytest.mark.parametrize(
    "items", ['"null"', '{"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}']
)
def test_a_list_of_nothing_is_refused_before_it_is_counted(server: RegistryServer, items: str) -> None:
    text = f'{{"type": "array", "items": {items}}}'
    head = b"\0" + server.add("x", text).to_bytes(4, "big")
    assert code_of(made(list[Any], schema=text).decode, head + b"\x06\0") == "incompatible-schema"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (Order("x", "y", 1), "unencodable"),  # type: ignore[arg-type]
        (Order(1.5, "y", 1), "unencodable"),  # type: ignore[arg-type]
        (Order(2**63, "y", 1), "unencodable"),
        (Line("x"), "wrong-type"),
        (None, "wrong-type"),
    ],
)
def test_values_that_do_not_fit_are_refused(server: RegistryServer, value: Any, code: str) -> None:
    with pytest.raises(SerdeError) as error:
        made(Order).encode(value)
    assert error.value.code == code
    assert str(2**63) not in str(error.value)


def test_a_time_without_a_time_zone_is_refused(server: RegistryServer) -> None:
    with pytest.raises(SerdeError, match="without a time zone"):
        made(Paid).encode(Paid(1, datetime(2026, 1, 1)))  # noqa: DTZ001
