"""Origins of many records at once equal those of single ones, whatever other headers they have."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.log.records import READ_SCHEMA, Headers, Row, to_batch
from tidegate.runtime.output.origin import ORIGIN, OWNER, Origin, origin_columns, origin_header, origin_of
from tidegate.runtime.output.time_only import MARK
from tidegate.types import TopicPartition

PARTITION = TopicPartition("app-by-name-repartition", 3)
written = st.builds(
    origin_header,
    st.sampled_from(["in/0/1", "a/b/0/17", "-"]),
    st.sampled_from(["c/1/0/2", "t"]),
    st.integers(0, 99),
    st.integers(0, 99) | st.integers(0, 2_000_000_000_000),
)
usual = st.builds(
    origin_header, st.just("in/0/1"), st.just("c/1/0/2"), st.integers(0, 99), st.integers(10**12, 10**13 - 1)
)
"""As most records have it: a time of 13 digits."""
others = st.sampled_from([("mine", b"1"), ("mine", None), (ORIGIN, None), MARK])


@st.composite
def header_lists(draw: st.DrawFn) -> Headers:
    """As most records have them, with headers of their own, time-only, several origins, or none."""
    plain = ((OWNER, b"app/by-name"), draw(written))
    return draw(
        st.sampled_from([plain, plain, (*plain, MARK), ()])
        | st.lists(others | written, max_size=4).map(tuple)
    )


def read(headers: list[Headers]) -> pa.RecordBatch:
    batch = to_batch([Row(b"k", b"v", 50 + number, own) for number, own in enumerate(headers)])
    return pa.RecordBatch.from_arrays([pa.arange(7, 7 + len(headers)), *batch.columns], schema=READ_SCHEMA)


@given(st.lists(header_lists(), max_size=12) | st.lists(st.tuples(usual), max_size=12), st.integers(0, 3))
@example([(origin_header("in/0/1", "t/1234567", 12345, 1234567),)], 0)  # 13 characters that are no time
@example([(origin_header("in/0/1", "t", 1, 10**14),)], 0)  # its last 13 digits are no time
@example([(origin_header("in/0/1", "t", 1, 10**13 - 1),), (origin_header("in/0/1", "t", 1, 7),)], 0)
def test_origins_of_a_batch_are_those_of_its_records(headers: list[Headers], start: int) -> None:
    found = origin_columns(PARTITION, read(headers).slice(start))
    expected = [
        origin_of(own) or Origin(f"{PARTITION}/{7 + number}", "", 7 + number, 50 + number)
        for number, own in enumerate(headers)
    ]
    columns = (found.positions, found.tasks, found.sequences, found.times)
    assert list(map(Origin, *(column.to_pylist() for column in columns))) == expected[start:]


def test_a_header_of_another_program_under_our_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not the content of tidegate\.origin"):
        origin_columns(PARTITION, read([((OWNER, b"app/by-name"), (ORIGIN, b"somewhere"))]))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a.g1/0_1", "a.g1/0_10", "b.g1/0_1"]),
            st.integers(1, 700),
            st.sampled_from([0, 95, 9_990]),
            st.sampled_from([7, 10**12]),
        ),
        max_size=6,
    )
)
@example([("a.g1/0_1", 300, 0, 10**12), ("a.g1/0_10", 300, 0, 10**12)])
@example([("a.g1/0_1", 700, 95, 7), ("a.g1/0_1", 700, 9_990, 10**12)])
def test_tasks_that_wrote_many_records_in_a_row_are_found(runs: list[tuple[str, int, int, int]]) -> None:
    headers: list[Headers] = [
        (origin_header(f"in/0/{number}", task, first + number, time + number),)
        for task, count, first, time in runs
        for number in range(count)
    ]
    expected = [found.task for own in headers if (found := origin_of(own))]
    assert origin_columns(PARTITION, read(headers)).tasks.to_pylist() == expected
