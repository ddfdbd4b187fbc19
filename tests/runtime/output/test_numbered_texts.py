"""Texts that differ in their numbers: the same as joined one by one, however long the numbers are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.runtime.output import numbered_texts
from tidegate.runtime.output.numbered_texts import Parts, joined

STARTS = st.one_of(
    st.integers(0, 10**13),
    st.builds(
        lambda digit, power, before: max(0, digit * 10**power - before),
        st.integers(1, 9),
        st.integers(1, 12),
        st.integers(0, 300),
    ),
)
"""Many of them where digits carry over, or numbers become longer."""


@st.composite
def columns(draw: st.DrawFn, count: int) -> list[int]:
    start = draw(STARTS)
    kind = draw(st.sampled_from(("consecutive", "with gaps", "repeated", "any", "back")))
    if kind == "consecutive":
        return list(range(start, start + count))
    if kind == "with gaps":
        return [start + 3 * number for number in range(count)]
    if kind == "repeated":
        return [start + number // 3 for number in range(count)]
    if kind == "back":
        return list(range(start, start + count))[::-1]
    return draw(st.lists(st.integers(-5, 2000), min_size=count, max_size=count))


@st.composite
def part_lists(draw: st.DrawFn) -> list[str | list[int]]:
    count = draw(st.sampled_from((1, 2, 9, 250)))
    texts = st.sampled_from(("orders/0/", " ", "", " größer/", "日本/1/"))
    return [
        draw(texts),
        draw(columns(count)),
        draw(texts),
        *draw(st.lists(st.one_of(texts, columns(count)), max_size=3)),
    ]


def one_by_one(parts: list[str | list[int]]) -> list[bytes]:
    [count] = {len(part) for part in parts if isinstance(part, list)}
    return [
        "".join(part if isinstance(part, str) else str(part[row]) for part in parts).encode()
        for row in range(count)
    ]


def as_columns(parts: list[str | list[int]]) -> Parts:
    return tuple(part if isinstance(part, str) else pa.array(part, pa.int64()) for part in parts)


@given(part_lists())
def test_the_same_as_joined_one_by_one(parts: list[str | list[int]]) -> None:
    found = joined(as_columns(parts))
    found.validate(full=True)
    assert found.type == pa.binary()
    assert found.to_pylist() == one_by_one(parts)


@pytest.mark.parametrize(
    "start", [0, 8_990, 99_990, 1_000_000, 1_099_990, 9_899_995, 123_456_789, 1_699_999_999_990]
)
def test_consecutive_numbers_carry_at_every_place(start: int) -> None:
    """More numbers than a cycle of any place has that is written as a cycle; and a carry at a high place."""
    numbers = range(start, start + 120_000)
    assert joined(("n", pa.arange(start, start + 120_000))).to_pylist() == [b"n%d" % one for one in numbers]


def test_a_slice_of_a_column_is_written_from_its_first_row_on() -> None:
    numbers = pa.array([100, 200, 150, 300, 250], pa.int64()).slice(1, 3)
    assert joined(("n", numbers, "!")).to_pylist() == [b"n200!", b"n150!", b"n300!"]


def test_texts_and_nulls_are_left_to_arrow() -> None:
    assert joined((pa.array(["a/", "bc/"]), pa.array([1, 2], pa.int64()))).to_pylist() == [b"a/1", b"bc/2"]
    assert joined(("n", pa.array([1, None], pa.int64()))).to_pylist() == [b"n1", None]
    assert joined(("n", pa.array([], pa.int64()))).to_pylist() == []


def test_negative_and_the_largest_numbers_are_left_to_arrow() -> None:
    last = 2**63 - 1
    assert joined(("n", pa.array([last - 1, last]))).to_pylist() == [b"n%d" % (last - 1), b"n%d" % last]
    assert joined(("n", pa.arange(-9, -1))).to_pylist() == [b"n%d" % one for one in range(-9, -1)]


def test_more_bytes_than_one_column_takes_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses them, or returns several columns; a position beyond 2 GiB would wrap around."""
    monkeypatch.setattr(numbered_texts, "_MOST_BYTES", 30)
    monkeypatch.setattr(numbered_texts, "bytearray", None, raising=False)
    assert joined(("n", pa.arange(10, 20))).to_pylist() == [b"n%d" % one for one in range(10, 20)]
    with pytest.raises(TypeError):
        joined(("n", pa.arange(10, 19)))
