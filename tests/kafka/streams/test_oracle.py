"""The oracle itself: does the real Kafka Streams do what `oracle.py` describes?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kafka.clients import Pair, create, produce
from tests.kafka.streams.oracle import Oracle

from tidegate.testing.broker import KafkaCluster

pytestmark = pytest.mark.usefixtures("java_programs")
LEFT: list[Pair] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"c", None)]
RIGHT: list[Pair] = [(b"a", b"x"), (b"c", b"y"), (b"d", b"z")]


def prepared(kafka: KafkaCluster, name: str, *inputs: list[Pair]) -> list[str]:
    """Topics of two partitions with these records, the first topic's the latest."""
    topics = [f"oracle-{name}-{number}" for number in range(len(inputs))]
    for number, (topic, pairs) in enumerate(zip(topics, inputs, strict=True)):
        create(kafka.bootstrap, topic, 2, retention_ms="-1")  # the timestamps are old
        produce(kafka.bootstrap, topic, pairs, timestamp=1_000_000 - 1_000 * number)
    create(kafka.bootstrap, f"oracle-{name}-out", 2, retention_ms="-1")
    return topics


def outcome(kafka: KafkaCluster, folder: Path, name: str, *inputs: list[Pair]) -> dict[str, str | int]:
    topics = prepared(kafka, name, *inputs)
    with Oracle(kafka.bootstrap, name, f"oracle-{name}", topics, f"oracle-{name}-out", folder) as oracle:
        oracle.catch_up()
        return oracle.table()


def test_words_are_counted_and_the_count_goes_on_after_a_kill_without_its_folder(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    words: list[Pair] = [(b"k%d" % n, word) for n, word in enumerate(b"the tide the gate the tide".split())]
    (topic,) = prepared(kafka, "count", words)
    names = (kafka.bootstrap, "count", "oracle-count", [topic], "oracle-count-out")
    with Oracle(*names, tmp_path / "first") as oracle:
        oracle.catch_up()
        assert oracle.table() == {"the": 3, "tide": 2, "gate": 1}
        assert [value for key, value in oracle.records() if key == "the"] == [1, 2, 3]
    produce(kafka.bootstrap, topic, words)
    with Oracle(*names, tmp_path / "second") as oracle:
        oracle.catch_up()
        assert oracle.table() == {"the": 6, "tide": 4, "gate": 2}
        oracle.stop()
        assert not oracle.program.running


def test_an_aggregate_shows_the_order(kafka: KafkaCluster, tmp_path: Path) -> None:
    found = outcome(kafka, tmp_path, "aggregate", [(b"a", b"1"), (b"b", b"7"), (b"a", b"2")])
    assert found == {"a": 33, "b": 7}


def test_a_filter_keeps_what_does_not_start_with_x(kafka: KafkaCluster, tmp_path: Path) -> None:
    assert outcome(kafka, tmp_path, "filter", [(b"a", b"yes"), (b"b", b"xno"), (b"c", None)]) == {"a": "yes"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("table-table", {"a": "1|x"}),
        ("left-table-table", {"a": "1|x", "b": "2|null"}),
        ("outer-table-table", {"a": "1|x", "b": "2|null", "c": "null|y", "d": "null|z"}),
        ("stream-table", {"a": "1|x", "c": "3|y"}),
        ("left-stream-table", {"a": "1|x", "b": "2|null", "c": "3|y"}),
    ],
)
def test_joins(kafka: KafkaCluster, tmp_path: Path, name: str, expected: dict[str, str]) -> None:
    assert outcome(kafka, tmp_path, name, LEFT, RIGHT) == expected
