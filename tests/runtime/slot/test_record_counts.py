"""The number of records of a run is that of the records it took of the user's topics."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.runtime.record_counts import count

from tidegate.log.sqlite.log import SqliteLog


def test_only_records_of_source_topics_are_counted(tmp_path: Path) -> None:
    with closing(SqliteLog()) as log:
        assert count(log, tmp_path) == (3, {"a": 3, "b": 2, "c": 1})
