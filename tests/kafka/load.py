"""Lines sent to a broker all the time, whatever happens to it, and what must come of them."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from tests.kafka.own_names import OwnNames
from tests.runtime.fleet import COUNTS, LINES, Fleet

from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

KEPT_COUNTS = TopicSpec(COUNTS.name, 3, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
"""Every count stays, so that one that was left out would show."""


def loaded(fleet: Fleet) -> Fleet:
    """A fleet under load: with the 20 ms of others, brokers are busy with up to 100 transactions a second. A
    transaction is open nearly all the time either way."""
    fleet.commit_interval_ms = 200
    return fleet


class Load:
    """Sends a hundred lines a second while the block lasts, each exactly once."""

    def __init__(self, servers: str, log: OwnNames) -> None:
        self._topic = log.prefixed(TopicPartition(LINES.name, 0)).topic
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "message.timeout.ms": 300_000}
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(120) == 0

    def _send(self) -> None:
        number = 0
        while not self._ended.wait(0.05):
            for _ in range(5):
                number += 1
                self._producer.produce(self._topic, f"the {number % 10} quick".encode(), partition=number % 3)
            self._producer.poll(0)


def counted(fleet: Fleet) -> int:
    return fleet.counts().get("the", 0)


def is_right(fleet: Fleet) -> bool:
    """Whether the counts are those of all lines that there are."""
    words = Counter(word for record in fleet.connection.read(LINES) for word in record.value.split())
    return fleet.counts() == dict(words)


def rises_by_one(fleet: Fleet) -> bool:
    """Each count of each word once, in order: nothing lost, nothing twice (I1, I2, I4)."""
    seen: dict[str, list[int | None]] = {}
    for record in fleet.connection.read(COUNTS):
        seen.setdefault(record.key, []).append(record.value)
    return all(values == list(range(1, len(values) + 1)) for values in seen.values())
