"""Positions, shown as the offsets of a consumer group: for people and their tools alone.

Nothing reads them back. They expire after some days without a change, and hold nothing but an offset.

A consumer commits them that reads nothing and is no member of the group. The admin client could do it too,
but what it asks of a group's coordinator may abort the process when the connection breaks meanwhile
(librdkafka's issues 3663 and 4605; seen with 2.16 in three of four runs with a broker away for a minute).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from tidegate.log.kafka.clients import Clients
from tidegate.types import Offset, TopicPartition

CLOSE_SECONDS = 2.0


class Mirror:
    """Writes offsets of groups, without waiting for it; whatever goes wrong is tried again next time."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._groups: dict[str, _Group] = {}
        self._lock = threading.Lock()

    def show(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        with self._lock:
            if group not in self._groups:
                self._groups[group] = _Group(self._clients, group)
            self._groups[group].show(positions)

    def close(self) -> None:
        """What was asked last is still written, if that does not take long."""
        with self._lock:
            for group in self._groups.values():
                group.close()
            self._groups = {}


class _Asked:
    """What became of a group's last commit. Apart from the group: the consumer holds this, and must not hold
    itself, to be gone when it is let go of."""

    def __init__(self) -> None:
        self.shown: dict[TopicPartition, Offset] = {}
        self.open = False

    def done(self, error: KafkaError | None, places: list[Any]) -> None:
        self.open = False
        if error is not None or any(place.error is not None for place in places):
            self.shown = {}


class _Group:
    """The offsets of one group; used by one thread at a time."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._asked = _Asked()
        self._consumer: Consumer = clients.consumer(name, on_commit=self._asked.done)

    def show(self, positions: Mapping[TopicPartition, Offset]) -> None:
        self._serve(0)
        changed = {one: at for one, at in positions.items() if self._asked.shown.get(one) != at}
        if self._asked.open or not changed:
            return
        places = [Place(one.topic, one.partition, at) for one, at in changed.items()]
        with suppress(KafkaException):
            self._consumer.commit(offsets=places, asynchronous=True)
            self._asked.open = True
            self._asked.shown |= changed

    def close(self) -> None:
        """Where the group is not allowed, or no broker is there, a consumer with an open commit takes most of
        a minute to go: nobody waits for that."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._asked.open and time.monotonic() < deadline:
            self._serve(0.05)
        held = [self._consumer]
        del self._consumer
        if self._asked.open:
            threading.Thread(target=held.clear, name="tidegate-mirror-closing", daemon=True).start()

    def _serve(self, seconds: float) -> None:
        """Errors are told here too: that we may not, or that no broker is there. All of them may pass."""
        with suppress(KafkaException):
            self._consumer.poll(seconds)
