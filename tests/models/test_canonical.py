"""Canonical bytes by RFC 8785: what `JSON.stringify` of a browser writes, with sorted keys."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repeated

from tidegate.models.canonical import canonical, digest, part_by_part


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (123456789012345680000.0, "123456789012345680000"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-6, "0.000001"),
        (1.25e-6, "0.00000125"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (333333333.33333329, "333333333.3333333"),
        (2**53 - 1, "9007199254740991"),
        (True, "true"),
        (None, "null"),
        ('\u20ac$\u000f\nA\'B"\\\\"/', '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        ("\u2028\x7f", '"\u2028\x7f"'),
        ([], "[]"),
        ({}, "{}"),
        ({"b": [1, {"z": 1, "a": 2}], "a": None}, '{"a":null,"b":[1,{"a":2,"z":1}]}'),
    ],
)
def test_a_value_has_these_bytes(value: Any, written: str) -> None:
    assert canonical(value).decode() == written


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.integers(-99, 99).map(float),
    st.decimals(-1000, 1000, places=3).map(float),
)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=4)),
    lambda below: st.one_of(
        st.lists(below, max_size=4), st.dictionaries(st.text(max_size=3), below, max_size=4)
    ),
)


@pytest.mark.soak
@settings(max_examples=repeated(60, 5_000))
@given(documents)
def test_the_fast_way_writes_the_same_bytes(document: Any) -> None:
    assert canonical(document) == part_by_part(document)


@pytest.mark.soak
@settings(max_examples=repeated(60, 5_000))
@given(numbers)
def test_numbers_are_read_back_as_they_were(number: float) -> None:
    assert float(canonical(number)) == number


def test_keys_are_sorted_by_their_utf_16_units() -> None:
    """A character beyond the first plane comes before U+FB33, although its code point is larger."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    in_order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    written = canonical(dict.fromkeys(keys, 1)).decode()
    places = [written.index(key if key != "\r" else "\\r") for key in in_order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": [0, float("nan")]}, r"\['a'\]\[1\]: nan is no JSON number"),
        (float("inf"), "the value: inf is no JSON number"),
        ({"n": 2**53}, r"\['n'\]: 9007199254740992 is beyond 2\^53"),
        (-(2**53), "beyond"),
        ({"t": "\ud800"}, "half a surrogate pair"),
        ({1: 2}, "the key 1 is not text"),
        ({"b": b"x"}, "a bytes is no JSON value"),
    ],
)
def test_what_a_browser_would_read_differently_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical(value)


def test_the_digest_is_that_of_the_canonical_bytes() -> None:
    expected = hashlib.sha256(b'{"a":1,"b":"\xc3\xa9"}').hexdigest()
    assert digest({"b": "é", "a": 1.0}) == f"sha256:{expected}"
