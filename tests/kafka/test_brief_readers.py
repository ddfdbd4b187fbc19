"""A reader that is closed at the end of a partition does not wait for more records first."""

from __future__ import annotations

import time
from contextlib import closing

from tests.kafka.conftest import OpenLog
from tests.waiting import wait_for

from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

LINES = TopicPartition("lines", 0)
WAIT_SECONDS = 0.05
"""How long other readers wait for more records before they report the end."""


def test_the_end_behind_a_transaction_is_reported_at_once(open_own: OpenLog) -> None:
    """The last offset is that of the commit, so that only the report of the end tells that all was read."""
    log = open_own()
    log.create(TopicSpec(LINES.topic))
    with closing(log.writer("writer")) as writer:
        writer.append(LINES, to_batch([Row(b"k", b"v", 1)]))
        writer.commit()
    wait_for(lambda: log.ends([LINES], committed=False)[LINES] == 2)

    def seconds(*, brief: bool) -> float:
        with closing(log.reader({LINES: Offset(0)}, brief=brief)) as reader:
            found = 0
            while not found:
                found = sum(fetched.batch.num_rows for fetched in reader.poll(1.0))
            began = time.monotonic()
            while reader.position(LINES) < 2:
                reader.poll(1.0)
            return time.monotonic() - began

    took = [(seconds(brief=True), seconds(brief=False)) for _ in range(8)]
    assert min(brief for brief, _ in took) < WAIT_SECONDS / 2
    assert min(other for _, other in took) > WAIT_SECONDS / 2
    assert sum(one.batch.num_rows for one in read_to_end(log, {LINES: Offset(0)})) == 1
