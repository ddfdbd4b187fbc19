"""Rows of numbers as columns have the same bytes as rows one by one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.topic import LATEST_TIMESTAMP
from tidegate.runtime.batches.number_rows import read_numbers, written_numbers
from tidegate.runtime.operators.kept_rows import NO_TIME
from tidegate.serde.plain import PLAIN
from tidegate.state.formats import with_time

numbers = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, LATEST_TIMESTAMP)
rows = st.lists(st.one_of(st.none(), st.tuples(times, numbers)), max_size=20)


def encoded(row: tuple[int, int]) -> bytes:
    return with_time(PLAIN[int].encode(row[1]), row[0])


@given(rows)
def test_rows_are_read_as_one_by_one(given_rows: list[tuple[int, int] | None]) -> None:
    found = read_numbers([None if row is None else encoded(row) for row in given_rows])
    assert found is not None
    assert found[0].to_pylist() == [NO_TIME if row is None else row[0] for row in given_rows]
    assert found[1].to_pylist() == [None if row is None else row[1] for row in given_rows]


@given(st.lists(st.tuples(times, numbers), max_size=20), st.integers(0, 3))
def test_rows_are_written_as_one_by_one(given_rows: list[tuple[int, int]], skipped: int) -> None:
    kept = given_rows[skipped:]
    at = pa.array([row[0] for row in given_rows], pa.int64()).slice(skipped)
    values = pa.array([row[1] for row in given_rows], pa.int64()).slice(skipped)
    assert written_numbers(at, values) == [encoded(row) for row in kept]


def test_a_row_of_another_length_is_left_to_its_serde() -> None:
    assert read_numbers([encoded((1, 1)), b"short"]) is None
