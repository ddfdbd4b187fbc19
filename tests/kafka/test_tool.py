"""Kafka's own tools run from the same jars."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.kafka.clients import create, produce

from tidegate.errors import LogError
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.broker.tool import CONSUMER_GROUPS, run_tool


def test_the_group_tool_shows_the_lag(kafka: KafkaCluster) -> None:
    create(kafka.bootstrap, "tool-topic")
    produce(kafka.bootstrap, "tool-topic", [(b"k", b"%d" % n) for n in range(5)])
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "tool-group"})
    consumer.commit(offsets=[TopicPartition("tool-topic", 0, 2)], asynchronous=False)
    consumer.close()
    reported = run_tool(
        CONSUMER_GROUPS, "--bootstrap-server", kafka.bootstrap, "--describe", "--group", "tool-group"
    )
    heads, row = (line.split() for line in reported.splitlines() if line.split())
    found = dict(zip(heads, row, strict=False))
    assert (found["CURRENT-OFFSET"], found["LOG-END-OFFSET"], found["LAG"]) == ("2", "5", "3")


def test_a_tool_that_fails_reports_why(kafka: KafkaCluster) -> None:
    with pytest.raises(LogError, match="nonsense") as caught:
        run_tool(CONSUMER_GROUPS, "--bootstrap-server", kafka.bootstrap, "--nonsense")
    assert caught.value.code == "tool-failed"
