"""Whether records fit into a topic is decided by each of them, however many are checked at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import LogError
from tidegate.log.checks import RowCheck, check_batch
from tidegate.log.records import Headers, Row, to_batch
from tidegate.log.topic import TopicInfo

LIMIT = 200
data = st.binary(max_size=120) | st.none()
headers = st.lists(st.tuples(st.sampled_from(["a", "name"]), data), max_size=3).map(tuple)
rows = st.lists(st.builds(Row, data, data, st.just(5), headers), min_size=1, max_size=6)


def topic() -> TopicInfo:
    return TopicInfo("events", "uid", {"max.message.bytes": str(LIMIT)}, (0,))


def fits(row: Row) -> bool:
    own: Headers = row.headers
    of_headers = sum(len(name) + len(content or b"") + 16 for name, content in own)
    return 64 + len(row.key or b"") + len(row.value or b"") + of_headers <= LIMIT


@given(rows)
def test_a_batch_fits_if_each_of_its_records_does(given_rows: list[Row]) -> None:
    batch, check = to_batch(given_rows), RowCheck(topic())
    if all(map(fits, given_rows)):
        check.sizes(batch, 5)
        return
    with pytest.raises(LogError, match="record-too-large"):
        check.sizes(batch, 5)


def test_a_batch_of_the_longest_parts_of_different_records_fits() -> None:
    many = [Row(b"k" * 100, b"", 5, ()), Row(b"", b"v" * 100, 5, ()), Row(b"", b"", 5, (("a", b"x" * 100),))]
    assert all(map(fits, many))
    assert check_batch(topic(), 0, to_batch(many * 100), 5) > LIMIT
    RowCheck(topic()).sizes(to_batch(many), 5)
