"""Watching an app from outside, by the positions that its slots commit: when, and how far.

A slot stamps its positions when it commits them. So the speed of a slot is read off the log, the same way
for a slot on Spark and for one without: no start-up, no look that comes a moment late, nothing asked of the
process that is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import msgspec

from benchmarks.apps.runtime_apps import ORDERS
from tidegate.log import names
from tidegate.log.positions import Position
from tidegate.log.protocol import Log
from tidegate.types import Offset, TopicPartition

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Commit:
    """So many records of the app's source were committed, all in all, at this wall time."""

    at: int
    records: int


def commits(log: Log, app: str, records: int, alive: Callable[[], bool]) -> Iterator[Commit]:
    """Each commit as it comes, until so many records are committed. Raises if the app ends before."""
    partition = TopicPartition(names.positions(app), 0)
    done: dict[bytes, int] = {}
    with closing(log.reader({partition: Offset(0)})) as reader:
        while sum(done.values()) < records:
            living = alive()
            fetched = reader.poll(POLL_SECONDS)
            if not fetched and not living:
                raise RuntimeError(f"the app ended after {sum(done.values())} of {records} records")
            for part in fetched:
                columns = (part.batch.column(name).to_pylist() for name in ("timestamp", "key", "value"))
                for at, key, value in zip(*columns, strict=True):
                    position = msgspec.json.decode(value, type=Position)
                    done[key] = sum(position.sources[ORDERS.name].values())
                    yield Commit(at, sum(done.values()))


def steady(found: list[Commit]) -> float:
    """Records per second from the end of the first commit that moved to the end of the last."""
    moved = [one for one in found if one.records]
    first = max((one for one in moved if one.at == moved[0].at), key=lambda one: one.records)
    last = moved[-1]
    if last.at <= first.at:
        raise ValueError("too few records: they were committed at once")
    return (last.records - first.records) * 1000 / (last.at - first.at)


def wait_for(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it is so. Raises TimeoutError after so long."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waits in vain")
        time.sleep(0.005)
