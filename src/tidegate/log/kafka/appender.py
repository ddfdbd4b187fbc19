"""Appending outside of any transaction: one idempotent producer, shared by all threads of a process."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message

from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.send import send
from tidegate.log.kafka.words import in_our_words
from tidegate.types import Offset, TopicPartition

APPEND_SECONDS = 60.0
NAP_SECONDS = 0.05
DEFAULTS = {"linger.ms": 0, "delivery.timeout.ms": 30_000}


class Appender:
    """Appends, and returns when the broker has it."""

    def __init__(self, clients: Clients) -> None:
        self._producer = clients.producer(DEFAULTS)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        """The offset of the first record. If it fails, some of the records may be there."""
        sent = _Sent()
        with in_our_words(f"records cannot be appended to {partition}"):
            send(self._producer, partition, batch, first=sent.first, last=sent.last)
            deadline = time.monotonic() + APPEND_SECONDS
            while not sent.done.is_set():  # another thread may be told of it
                self._producer.poll(NAP_SECONDS)
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker does not answer"))
            if sent.error is not None:
                raise KafkaException(sent.error)
        return Offset(sent.base)

    def close(self) -> None:
        self._producer.flush(1.0)


class _Sent:
    """What became of one batch."""

    def __init__(self) -> None:
        self.base = -1
        self.error: KafkaError | None = None
        self.done = threading.Event()

    def first(self, error: KafkaError | None, message: Message) -> None:
        self.error = self.error or error
        offset = message.offset()
        self.base = -1 if offset is None else offset

    def last(self, error: KafkaError | None, message: Message) -> None:
        self.error = self.error or error
        if self.base < 0 and error is None:
            self.base = message.offset() or 0
        self.done.set()
