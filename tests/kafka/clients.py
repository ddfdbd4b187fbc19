"""Kafka's own client, in the few calls that tests of the broker need."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

Pair = tuple[bytes | None, bytes | None]


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """Make a topic with as many copies as the brokers' default says."""
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


def produce(bootstrap: str, topic: str, pairs: list[Pair]) -> None:
    """Write records, in order, with all copies acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for key, value in pairs:
        producer.produce(topic, key=key, value=value)
        producer.poll(0)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, seconds: float = 30) -> list[Pair]:
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
        found: list[Pair] = []
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
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(int(message.partition() or 0))
            elif not error.retriable():
                raise AssertionError(error)
        return found
    finally:
        consumer.close()


def leaders(bootstrap: str, topic: str) -> Mapping[int, int]:
    """Partition -> id of the broker that leads it, -1 if none does."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=30)
    return {number: partition.leader for number, partition in found.topics[topic].partitions.items()}
