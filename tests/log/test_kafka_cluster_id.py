"""Waiting for a cluster's id, as librdkafka waits for it."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.log.kafka.cluster_id import await_cluster_id

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.parametrize("raises", [True, False])
def test_an_answer_that_the_wait_missed_is_found_soon(raises: bool) -> None:
    """A wait that missed the answer lasts until its timeout; the next one returns it at once."""
    asked: list[float] = []

    def ask(seconds: float) -> str | None:
        asked.append(seconds)
        if len(asked) > 1:
            return "cluster"
        time.sleep(seconds)
        if raises:
            raise TIMED_OUT
        return None

    began = time.monotonic()
    assert await_cluster_id(ask, 60.0) == "cluster"
    assert time.monotonic() - began < 30
    assert len(asked) == 2


def test_the_wait_ends_after_its_seconds() -> None:
    def ask(seconds: float) -> str | None:
        time.sleep(seconds)
        raise TIMED_OUT

    began = time.monotonic()
    assert await_cluster_id(ask, 0.3) is None
    assert time.monotonic() - began >= 0.3


def test_another_error_ends_the_wait() -> None:
    def ask(_: float) -> str | None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    assert await_cluster_id(ask, 60.0) is None
