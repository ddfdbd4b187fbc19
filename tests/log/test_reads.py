"""Bounded reads."""

from __future__ import annotations

import time
from contextlib import closing

from tidegate.log.reads import read_between, read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

PARTITION = TopicPartition("events", 0)
PATIENCE = 0.5
"""More than a busy machine keeps a process waiting between two steps."""


def test_the_time_that_the_caller_takes_is_not_held_against_the_log() -> None:
    with closing(SqliteLog()) as log:
        log.create(TopicSpec("events"))
        for number in range(3):
            log.append(PARTITION, to_batch([Row(b"k", b"x" * 900_000, number)] * 2))
        seen = 0
        for batch in read_between(log, PARTITION, 0, 6, patience=PATIENCE):
            dawdle(first=not seen)
            seen += batch.num_rows
        assert seen == 6
        for fetched in read_to_end(log, {PARTITION: Offset(0)}, patience=PATIENCE):
            dawdle(first=seen == 6)
            seen += fetched.batch.num_rows
        assert seen == 12


def dawdle(*, first: bool) -> None:
    """Take longer than the log may."""
    if first:
        time.sleep(1.2 * PATIENCE)
