"""The number of records of a run on Kafka, where transactions leave marks in partitions."""

from __future__ import annotations

from pathlib import Path

from tests.kafka.conftest import OpenLog
from tests.runtime.record_counts import count


def test_only_records_of_source_topics_are_counted(open_own: OpenLog, tmp_path: Path) -> None:
    assert count(open_own(), tmp_path) == (3, {"a": 3, "b": 2, "c": 1})
