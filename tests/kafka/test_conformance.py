"""The log on Kafka passes the suite of all logs, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.log.kafka.log import KafkaLog
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.route import partitions_of
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.conformance import LogConformance

EAGER = {"topics": {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}}
"""A segment for each append, so that the broker has something to compact: it leaves the newest one alone."""
WAIT_SECONDS = 30.0
QUIET_SECONDS = 1.0


class KafkaBench:
    """Each handle has clients of its own."""

    def __init__(self, cluster: KafkaCluster, *, compiled: bool = True) -> None:
        self._cluster = cluster
        self._compiled = compiled
        self._open: list[KafkaLog] = []

    def open(self) -> KafkaLog:
        self._open.append(KafkaLog(self._cluster.bootstrap, EAGER, compiled=self._compiled))
        return self._open[-1]

    def compact(self, topic: str) -> None:
        """The broker does it by itself, maybe before it is asked: wait until there is less than was written,
        and no less than that for a while."""
        log = self.open()
        written = sum(log.ends(partitions_of(log.describe(topic))).values())
        count = self._count(log, topic)
        deadline, still = time.monotonic() + WAIT_SECONDS, time.monotonic()
        while count == written or time.monotonic() < still + QUIET_SECONDS:
            assert time.monotonic() < deadline, f"{topic} was not compacted"
            time.sleep(0.2)
            newest = self._count(log, topic)
            if newest != count:
                count, still = newest, time.monotonic()

    def close(self) -> None:
        for log in self._open:
            log.close()

    @staticmethod
    def _count(log: Log, topic: str) -> int:
        return sum(
            batch.num_rows
            for partition in partitions_of(log.describe(topic))
            for batch in read_between(log, partition, 0, log.ends([partition])[partition])
        )


@pytest.mark.slow
class TestKafkaLog(LogConformance):
    """With all of it in Python."""

    @pytest.fixture
    def bench(self, kafka: KafkaCluster) -> Iterator[KafkaBench]:
        bench = KafkaBench(kafka, compiled=False)
        yield bench
        bench.close()


@pytest.mark.slow
class TestCompiledLoops(LogConformance):
    """With records read and written in the compiled loops."""

    @pytest.fixture
    def bench(self, kafka: KafkaCluster, compiled: Any) -> Iterator[KafkaBench]:
        assert compiled is not None
        bench = KafkaBench(kafka)
        yield bench
        bench.close()
