"""What is left in memory by errors of Kafka's client: nothing."""

from __future__ import annotations

import gc
import weakref

from confluent_kafka import KafkaException, Producer

from tidegate.log.kafka.error_mapping import raised_by


class Held:
    """What a frame holds when its call fails."""


def fail_twice(producer: Producer) -> weakref.ref[Held]:
    """Handle an error by a call that fails as well."""
    held = Held()
    try:
        int("no number")
    except ValueError:
        raised = raised_by(producer.begin_transaction)  # never initialised
        assert isinstance(raised, KafkaException)
    return weakref.ref(held)


def test_a_call_that_fails_while_an_error_is_handled_keeps_nothing() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t", "log_level": 0})
    held = fail_twice(producer)
    gc.collect()
    assert held() is None
