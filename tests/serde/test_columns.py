"""Whole columns are encoded to the same bytes as single values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.errors import SerdeError
from tidegate.runtime.batches.columns import Keys
from tidegate.serde.columns import encode_ints, encode_texts, surely_decodable
from tidegate.serde.plain import PLAIN

texts = st.text(st.characters(exclude_categories=["Cs"]))
TEXT = PLAIN[str]


class Name(str):
    """A text of a type of its own."""

    __slots__ = ()


def encoded(keys: list[Any]) -> list[bytes | None]:
    found: list[bytes | None] = Keys(keys, pa.arange(0, len(keys))).column(TEXT, TEXT.encode).to_pylist()
    return found


@given(st.lists(texts))
@example([])
@example(["", "\0", "é", "\U0001f30a"])
@example([Name("a"), "b"])
def test_texts_have_the_bytes_of_single_ones(keys: list[str]) -> None:
    assert encoded(keys) == [TEXT.encode(key) for key in keys]


@pytest.mark.parametrize("key", ["\ud800", 7, b"a", None])
def test_what_is_no_text_fails_as_a_single_one_does(key: Any) -> None:
    with pytest.raises(SerdeError) as alone:
        TEXT.encode(key)
    with pytest.raises(SerdeError) as among_others:
        encoded(["a", key])
    assert str(among_others.value) == str(alone.value)
    assert encode_texts(["a", key]) is None


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_have_the_bytes_of_single_ones(numbers: list[int]) -> None:
    expected = [PLAIN[int].encode(number) for number in numbers]
    assert encode_ints(pa.array(numbers, pa.int64())).to_pylist() == expected


@pytest.mark.parametrize("kind", [str, int, bytes, bool])
@given(st.lists(st.binary(max_size=9), min_size=1))
@example([b"\xed\xa0\x80"])  # a lone surrogate
@example([b"\xf4\x90\x80\x80"])  # above the last character
@example([b"\xc0\x80"])  # two bytes where one would do
@example([b"12345678"])
def test_only_what_can_be_decoded_is_left_for_later(kind: type, data: list[bytes]) -> None:
    serde = PLAIN[kind]
    if surely_decodable(pa.array(data, pa.binary()), serde):
        assert len(serde.decode_many(data)) == len(data)
    elif kind in (str, int):
        with pytest.raises(SerdeError):
            serde.decode_many(data)
