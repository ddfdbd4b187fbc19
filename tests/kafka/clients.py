"""Kafka's own client, in the few calls that tests of the broker need."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

Pair = tuple[bytes | None, bytes | None]
Headers = tuple[tuple[str, bytes | None], ...]


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """Make a topic with as many copies as is the brokers' default."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, config=named)])[topic].result(30)


@functools.cache
def _admin(bootstrap: str) -> AdminClient:
    """Held for good: one that is collected in its own thread aborts the process."""
    return AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("tidegate.kafka"))


def configure(bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    _admin(bootstrap).incremental_alter_configs([resource])[resource].result(30)


@dataclass(frozen=True, slots=True)
class Message:
    """One record as it stands in a topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Draft(NamedTuple):
    """One record before it is sent."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


def send(bootstrap: str, topic: str, drafts: Iterable[Draft], partition: int = -1) -> None:
    """Write records with all that they carry, in order, to a partition. The client's own partitioner is not
    Java's: without one they lie elsewhere than Java would have put them, those of one key together."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for draft in drafts:
        producer.produce(
            topic,
            key=draft.key,
            value=draft.value,
            partition=partition,
            timestamp=draft.timestamp,
            headers=list(draft.headers),
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def produce(bootstrap: str, topic: str, pairs: Iterable[Pair], timestamp: int | None = None) -> None:
    """Write records, in order, acknowledged by all copies; the first at `timestamp`, each next a ms later."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number, (key, value) in enumerate(pairs):
        at = 0 if timestamp is None else timestamp + number  # 0 is now
        producer.produce(topic, key=key, value=value, timestamp=at)
        producer.poll(0)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str) -> list[Pair]:
    """Keys and values of all committed records of a topic, partition by partition."""
    return [(found.key, found.value) for found in read(bootstrap, topic)]


def read(bootstrap: str, topic: str, seconds: float = 30) -> list[Message]:
    """All committed records of a topic, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        found: list[Message] = []
        partitions = consumer.list_topics(topic, timeout=seconds).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ended: set[int] = set()
        end = time.monotonic() + seconds
        while len(ended) < len(partitions):
            assert time.monotonic() < end, (
                f"{topic}: the end of partitions {set(partitions) - ended} not seen"
            )
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(_as_message(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(int(message.partition() or 0))
            elif not error.retriable():
                raise AssertionError(error)
        return sorted(found, key=lambda message: (message.partition, message.offset))
    finally:
        consumer.close()


def _as_message(found: Any) -> Message:
    return Message(
        found.partition(),
        found.offset(),
        found.timestamp()[1],
        found.key(),
        found.value(),
        tuple(found.headers() or ()),
    )
