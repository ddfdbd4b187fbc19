"""What Kafka refuses has a code of its own: those that no other test is about."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import KafkaException, Producer

from tidegate.errors import LogError
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.kafka.words import in_our_words
from tidegate.testing.broker import KafkaCluster


def test_whatever_else_librdkafka_says_has_a_code_too() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t", "log_level": 0})
    with pytest.raises(LogError) as told, in_our_words("a transaction cannot be begun"):
        producer.begin_transaction()  # before it was initialised
    assert told.value.code == "kafka-error"
    assert isinstance(told.value.__cause__, KafkaException)
    assert told.value.message.startswith("a transaction cannot be begun: ")


@pytest.mark.slow
def test_topics_that_nobody_could_write_to_are_noticed_beforehand(kafka: KafkaCluster) -> None:
    """One broker, and two copies asked for before a record is taken."""
    settings = {"topics": {"min.insync.replicas": "2"}}
    log = KafkaLog(kafka.bootstrap, settings)
    with closing(log), pytest.raises(LogError, match="1 copies, and 2") as told:
        log.checkup().copies()
    assert told.value.code == "too-few-copies"
