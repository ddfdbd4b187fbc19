"""What Kafka refuses has a code of its own: those that no other test is about."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import KafkaException, Producer
from tests.kafka.clients import create

from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.errors import LogError
from tidegate.log.kafka.error_mapping import translated_errors
from tidegate.log.kafka.log import KafkaLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.testing.broker import KafkaCluster


def test_any_other_error_of_librdkafka_has_a_code_too() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t", "log_level": 0})
    with pytest.raises(LogError) as caught, translated_errors("a transaction cannot be begun"):
        producer.begin_transaction()  # before it was initialised
    assert caught.value.code == "kafka-error"
    assert isinstance(caught.value.__cause__, KafkaException)
    assert caught.value.message.startswith("a transaction cannot be begun: ")


@pytest.mark.slow
def test_topics_that_nobody_could_write_to_are_noticed_beforehand(kafka: KafkaCluster) -> None:
    """One broker, and two copies asked for before a record is taken."""
    settings = {"topics": {"min.insync.replicas": "2"}}
    log = KafkaLog(kafka.bootstrap, settings)
    with closing(log), pytest.raises(LogError, match="1 copies, and 2") as caught:
        log.checkup().copies()
    assert caught.value.code == "too-few-copies"


@pytest.mark.slow
def test_a_source_whose_broker_replaces_event_times_is_refused(kafka: KafkaCluster, prefix: str) -> None:
    topic = f"{prefix}events"
    create(kafka.bootstrap, topic, message_timestamp_type="LogAppendTime")
    app = App(f"{prefix}app")
    app.stream(Topic(topic, str)).count("counted").to(TableTopic(f"{prefix}counts", int))
    log = KafkaLog(kafka.bootstrap)
    with closing(log), pytest.raises(LogError, match=topic) as caught:
        prepare(app.build(), log, SystemClock(), partitions=1)
    assert caught.value.code == "replaces-times"
