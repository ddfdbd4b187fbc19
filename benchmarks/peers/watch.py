"""When an engine's output is committed, seen from outside and at next to no cost.

The committed end of each output partition (how far a read_committed consumer may read) is requested every 20
ms; to read millions of outputs meanwhile would take the CPU from the engine. The source is done when the
engine's group has committed its end: all engines show their positions there. The marker of a transaction
after the last record of a partition may be missing in a position, and counts as one record behind; what is
counted is compared afterwards.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

from benchmarks.peers.peer import Run
from benchmarks.peers.records import PARTITIONS
from benchmarks.peers.verify import WrongResultError
from tidegate import types
from tidegate.log.protocol import Log

LOOK_SECONDS = 0.02
LAG_SECONDS = 0.5
QUIET_SECONDS = 1.0


def partitions(topic: str) -> list[types.TopicPartition]:
    return [types.TopicPartition(topic, number) for number in range(PARTITIONS)]


class Watch:
    """One engine's way through its source: first `until_first`, then `until_done`."""

    def __init__(self, log: Log, bootstrap: str, app_id: str, source: str, output: str) -> None:
        self._log = log
        self._output = partitions(output)
        self._lag = Lag(log, bootstrap, app_id, source)
        self._begun = self._now = self._first = self._end()
        self.first_at = self.last_at = 0.0

    @property
    def seconds(self) -> float:
        """From the first committed output to the last."""
        return self.last_at - self.first_at

    @property
    def share(self) -> float:
        """How much of the output came after that first one."""
        return (self._now - self._first) / (self._now - self._begun)

    def until_first(self, run: Run, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._moved():
            _check(run, deadline)
            time.sleep(LOOK_SECONDS)
        self._first, self.first_at = self._now, self.last_at

    def until_done(self, run: Run, seconds: float) -> None:
        deadline, look = time.monotonic() + seconds, 0.0
        while True:
            self._moved()
            now = time.monotonic()
            if now > self.last_at + QUIET_SECONDS and now > look:
                if self._lag.now() <= PARTITIONS and not self._moved():
                    break
                look = now + LAG_SECONDS
            _check(run, deadline)
            time.sleep(LOOK_SECONDS)
        self._lag.close()
        if self.seconds <= 0:
            raise WrongResultError("too few records: all output came at once")

    def _moved(self) -> bool:
        end = self._end()
        if end == self._now:
            return False
        self._now, self.last_at = end, time.monotonic()
        return True

    def _end(self) -> int:
        return sum(self._log.ends(self._output).values())


class Lag:
    """How far an engine's group is behind the end of its source."""

    def __init__(self, log: Log, bootstrap: str, app_id: str, source: str) -> None:
        self._log = log
        self._source = partitions(source)
        self._group = Consumer({"bootstrap.servers": bootstrap, "group.id": app_id})

    def now(self) -> int:
        """In records."""
        ends = self._log.ends(self._source)
        found = self._group.committed([TopicPartition(*one) for one in self._source], timeout=10)
        return sum(ends[types.TopicPartition(one.topic, one.partition)] - max(0, one.offset) for one in found)

    def close(self) -> None:
        self._group.close()


def _check(run: Run, deadline: float) -> None:
    if not run.pids:
        raise WrongResultError("the engine ended before its work was done")
    if time.monotonic() > deadline:
        raise WrongResultError("the engine did not come to an end")
