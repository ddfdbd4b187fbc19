"""A gate with so many statuses that nobody should look at all of them, and a guard against who does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.app import EVENTS, gated

from tidegate.gate import rows
from tidegate.gate.query import GateQuery
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver
from tidegate.types import TopicPartition


@contextmanager
def many_statuses(path: Path) -> Iterator[Driver]:
    """Two partitions, ten paused keys in each and many that are not, one event held in each."""
    with closing(SqliteLog(path)) as log, Driver(gated(), log=log, partitions=2) as driver:
        driver.run()
        for number in range(2):
            keys = [b"k%d" % n for n in range(5 * rows.TAIL) if partition_for(b"k%d" % n, 2) == number]
            statuses = [b'{"state":"PAUSED"}' if n < 10 else None for n in range(len(keys))]
            batch = to_batch([Row(key, value, 0) for key, value in zip(keys, statuses, strict=True)])
            log.append(TopicPartition("gated-door-status", number), batch)
            driver.send(EVENTS, keys[0].decode(), 1)
        driver.run()
        yield driver


def forbid_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at all keys from now on fails."""

    def unread(*_: Any) -> Any:
        raise AssertionError("all keys were looked at")

    monkeypatch.setattr(rows.Folded, "_table", unread)
    monkeypatch.setattr(GateQuery, "_keys", unread)
