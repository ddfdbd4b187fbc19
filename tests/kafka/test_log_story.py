"""The story of tests/log/log_story.py on a real broker."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from tests.kafka.conftest import OpenLog
from tests.log import log_story
from tests.log.log_story import SEGMENT_MS, TOTALS

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.route import partitions_of

COMPACT_SECONDS = 120.0


class OnBroker:
    """Topics of this test's own names."""

    def __init__(self, open_own: OpenLog) -> None:
        self._open = open_own

    def open(self) -> Log:
        return self._open()

    def compact(self) -> None:
        """A broker does not compact the segment that it writes to. It begins a new one when a record comes
        whose time is `segment.ms` after that of the first, and soon compacts what lies before."""
        with closing(self.open()) as log:
            later = to_batch([Row(b"nobody", None, SystemClock().now() + SEGMENT_MS + 60_000)])
            for partition in partitions_of(log.describe(TOTALS.name)):
                log.append(partition, later)
            connection = Connection(log, owned=False)
            deadline = time.monotonic() + COMPACT_SECONDS
            while True:
                keys = [record.key for record in connection.read(TOTALS) if record.value is not None]
                if len(keys) == len(set(keys)):
                    return
                assert time.monotonic() < deadline, "the broker did not compact the table"
                time.sleep(0.2)


def test_every_order_is_counted_once_and_in_order(open_own: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_story, "TRANSACTIONS", 4)  # the same story, shorter
    monkeypatch.setattr(log_story, "PATIENCE_SECONDS", 120.0)  # however slow the broker is
    figures = log_story.run(OnBroker(open_own))
    assert (figures.orders, figures.aborted) == (3500, 500)
    assert "was fenced by a newer one" in figures.fenced
    assert figures.table_records > figures.rows == figures.records_after
