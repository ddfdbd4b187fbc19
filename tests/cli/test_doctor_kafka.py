"""What `tidegate doctor` reports on how Kafka's records are read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.cli.doctor_kafka import KAFKA_CHECKS
from tidegate.config.config import load_config
from tidegate.log.kafka.bulk import Bulk


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (Bulk(object(), ""), "in the compiled loops of tidegate_bulk"),
        (Bulk(None, "tidegate_bulk is not installed"), "in Python, slower: tidegate_bulk is not installed"),
        (Bulk(None, "librdkafka has version 3, not 2"), "in Python, slower: librdkafka has version 3, not 2"),
    ],
)
def test_doctor_reports_which_loops_are_used_and_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: Bulk, line: str
) -> None:
    # Each answer needs another installation; that `bulk` gives them is shown in tests/log/test_kafka_bulk.py.
    monkeypatch.setattr("tidegate.log.kafka.bulk.bulk", lambda: found)
    assert KAFKA_CHECKS["records"](load_config(environ={}, folder=tmp_path)) == f"read and written {line}"
