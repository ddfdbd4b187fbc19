"""What the tests of the compiled loops share: mock brokers, topics of their own, and random records."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st
from tests.log.mock_cluster import MockCluster

from tidegate.log.records import Row
from tidegate.types import TopicPartition

SECONDS = 30.0
numbers = count()
"""For names that no other test has."""

_bytes_or_none = st.none() | st.binary(max_size=40)
_headers = st.lists(st.tuples(st.text("aé0\0\U0001f30a", max_size=9), _bytes_or_none), max_size=3)
rows = st.builds(Row, _bytes_or_none, _bytes_or_none, st.sampled_from([0, 1, 2, 1_700_000_000_000]), _headers)


def topic(cluster: MockCluster) -> TopicPartition:
    name = f"t{next(numbers)}"
    cluster.create(name)
    return TopicPartition(name, 0)
