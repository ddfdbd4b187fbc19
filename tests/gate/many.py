"""A gate with so many statuses that an overview must not read all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.gate.app import EVENTS, gated

from tidegate.gate import rows
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver
from tidegate.types import Offset, TopicPartition


@contextmanager
def many_statuses(path: Path) -> Iterator[Driver]:
    """Two partitions, ten paused keys in each and many that are not, one event held in each.

    The changelogs are cut to their ends, where the totals lie: whoever counts key by key counts too few.
    """
    with closing(SqliteLog(path)) as log, Driver(gated(), log=log, partitions=2) as driver:
        driver.run()
        for number in range(2):
            keys = [b"k%d" % n for n in range(5 * rows.TAIL) if partition_for(b"k%d" % n, 2) == number]
            statuses = [b'{"state":"PAUSED"}' if n < 10 else None for n in range(len(keys))]
            batch = to_batch([Row(key, value, 0) for key, value in zip(keys, statuses, strict=True)])
            log.append(TopicPartition("gated-door-status", number), batch)
            driver.send(EVENTS, keys[0].decode(), 1)
        driver.run()
        for partition in changelogs():
            log.purge(partition, Offset(log.ends([partition])[partition] - 1))
        yield driver


def changelogs() -> list[TopicPartition]:
    """Of the stores that a count key by key reads."""
    topics = ("gated-door-status-changelog", "gated-door-index-changelog")
    return [TopicPartition(topic, number) for topic in topics for number in range(2)]
