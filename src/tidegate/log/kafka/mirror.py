"""Publish positions as the offsets of a consumer group, for people and monitoring tools only.

Nothing reads them back. They expire after some days without a change, and hold only offsets.

They are committed by a consumer that reads nothing and is not a member of the group. The admin client could
do it too, but its requests to a group's coordinator may abort the process if the connection breaks
(librdkafka issues 3663 and 4605; it happened with 2.16 in three of four runs with a broker away for a
minute)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.log.kafka.clients import Clients
from tidegate.types import Offset, TopicPartition

CLOSE_SECONDS = 2.0


class Mirror:
    """Commits offsets of groups without waiting; a failure is retried at the next call."""

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
        """Wait briefly for the last commit of each group, then close."""
        with self._lock:
            for group in self._groups.values():
                group.close()
            self._groups = {}


class _LastCommit:
    """The outcome of a group's last commit. A separate object, because the consumer references it: a
    reference cycle would delay the consumer's destruction."""

    def __init__(self) -> None:
        self.shown: dict[TopicPartition, Offset] = {}
        self.open = False

    def done(self, error: KafkaError | None, partitions: list[Any]) -> None:
        self.open = False
        if error is not None or any(partition.error is not None for partition in partitions):
            self.shown = {}


class _Group:
    """The offsets of one group; used by one thread at a time."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._commit = _LastCommit()
        self._consumer: Consumer = clients.consumer(name, on_commit=self._commit.done)

    def show(self, positions: Mapping[TopicPartition, Offset]) -> None:
        self._serve(0)
        changed = {one: at for one, at in positions.items() if self._commit.shown.get(one) != at}
        if self._commit.open or not changed:
            return
        partitions = [KafkaPartition(one.topic, one.partition, at) for one, at in changed.items()]
        with suppress(KafkaException):
            self._consumer.commit(offsets=partitions, asynchronous=True)
            self._commit.open = True
            self._commit.shown |= changed

    def close(self) -> None:
        """Close the consumer, in the background if its commit is still open: without permission for the group
        or without a broker that takes most of a minute."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._commit.open and time.monotonic() < deadline:
            self._serve(0.05)
        held = [self._consumer]
        del self._consumer
        if self._commit.open:
            threading.Thread(target=held.clear, name="tidegate-mirror-closing", daemon=True).start()

    def _serve(self, seconds: float) -> None:
        """Run callbacks. Errors raised here (no permission, no broker) are ignored: they may be temporary."""
        with suppress(KafkaException):
            self._consumer.poll(seconds)
