"""A driver does not read a topic to its end while it has records there that it has not committed.

On Kafka it would wait for its own transaction until the broker ends it, and find itself fenced: whether it
does depends on how soon the client sends what was appended, so that it shows on a busy machine only. On the
embedded log nothing is visible before the commit. Here a log is watched through a whole upgrade.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.upgrade.test_upgrade import ORDERS, shop
from tests.upgrade.test_upgrade_asked import ASKED, run_until
from tests.upgrade.versions import PARTITIONS

from tidegate.clock import ManualClock
from tidegate.log.protocol import Log, Writer
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import read_control, write_control
from tidegate.testing import Driver
from tidegate.types import Offset, TopicPartition


class _Noted:
    """A writer that notes the partitions of its open transaction."""

    def __init__(self, writer: Writer, pending: set[TopicPartition]) -> None:
        self._writer, self._pending = writer, pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._writer.append(partition, batch)
        if batch.num_rows:
            self._pending.add(partition)

    def commit(self) -> dict[TopicPartition, Offset]:
        self._pending.clear()
        return self._writer.commit()

    def abort(self) -> None:
        self._pending.clear()
        self._writer.abort()

    def close(self) -> None:
        self._pending.clear()
        self._writer.close()


class WatchedLog:
    """Raises if a partition with pending records is to be read to its uncommitted end."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._pending: list[set[TopicPartition]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> Writer:
        pending: set[TopicPartition] = set()
        self._pending.append(pending)
        return cast("Writer", _Noted(self._log.writer(writer_id, open_seconds=open_seconds), pending))

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        listed = list(partitions)
        waited_for = set(listed) & set[TopicPartition]().union(*self._pending)
        assert committed or not waited_for, f"would wait for its own records in {sorted(waited_for)}"
        return self._log.ends(listed, committed=committed)


def watched(log: Log) -> Log:
    return cast("Log", WatchedLog(log))


@pytest.mark.parametrize("name", ASKED)
def test_an_upgrade_that_was_allowed_does_not_wait_for_itself(name: str) -> None:
    old, new, happens, _, consent = ASKED[name]
    clock = ManualClock()
    with (
        closing(SqliteLog(None, clock=clock)) as log,
        Driver(old(), partitions=PARTITIONS, log=watched(log), clock=clock) as d,
    ):
        run_until(d, happens)
        entry = d.upgrade(new(), consent)
        assert entry is not None
        d.send(ORDERS, "more", 1)
        d.run()
        assert entry.state == "done"


def test_a_driver_that_reopens_its_writer_does_not_wait_for_what_it_left_open() -> None:
    """As after a commit that failed: the broker has records of the transaction, which nobody has ended."""
    clock = ManualClock()
    with closing(SqliteLog(None, clock=clock)) as embedded:
        log = watched(embedded)
        with Driver(shop(), log=log, clock=clock) as d:
            d.send(ORDERS, "k", 1)
            d.run()
        with closing(take_over(log, "shop", 1, clock)) as claim:
            write_control(claim.writer, "shop", {"plan/active": claim.before}, clock.now())
            claim.regain(log)
            claim.begin_attempt(0, 1, clock.now())
            assert read_control(log, "shop").epoch("active") == claim.epoch


def test_reading_to_the_end_within_a_transaction_is_seen() -> None:
    """The log that watches does find it."""
    with closing(SqliteLog(None)) as embedded:
        log, partition = watched(embedded), TopicPartition("here", 0)
        log.create(TopicSpec("here"))
        with closing(log.writer("mine")) as writer:
            writer.append(partition, to_batch([Row(b"k", b"v", 0)]))
            with pytest.raises(AssertionError, match="wait for its own records"):
                list(read_to_end(log, {partition: Offset(0)}))
            writer.commit()
            assert len(list(read_to_end(log, {partition: Offset(0)}))) == 1
