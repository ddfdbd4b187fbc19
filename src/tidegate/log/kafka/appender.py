"""Append all records of a call or none, outside of the caller's transactions.

A single record is sent by an idempotent producer that all threads of a process share, and its delivery report
is awaited. Several records are sent in a transaction: without one, a producer that loses a batch in the
middle sends the rest, and delivery reports could only reveal the gap afterwards. The transactional id belongs
to this appender alone; its writer stays open, and the broker expires the id some days after its last use."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError
from tidegate.log.checks import check_batch
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.error_mapping import (
    COMMIT_UNKNOWN,
    RAISED,
    error_of,
    translated_errors,
    unknown_append,
)
from tidegate.log.kafka.send import is_small, send
from tidegate.log.kafka.topics import Topics
from tidegate.log.kafka.writer import KafkaWriter
from tidegate.types import Offset, TopicPartition

APPEND_SECONDS = 60.0
NAP_SECONDS = 0.05
DEFAULTS = {"linger.ms": 0, "delivery.timeout.ms": 30_000}
WRITER_PREFIX = "tidegate.appends."
_RETRIED = ("fenced", "offset-unknown")


class Appender:
    """Appends records, and returns when the broker has confirmed them. Thread-safe."""

    def __init__(self, clients: Clients, topics: Topics, clock: Clock) -> None:
        self._clients = clients
        self._topics = topics
        self._clock = clock
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._one_by_one: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._writing = threading.Lock()
        self._writer: KafkaWriter | None = None
        self._id = WRITER_PREFIX + uuid.uuid4().hex

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        """Return the offset of the last record; for an empty batch, the partition's last used offset."""
        if not batch.num_rows:
            check_batch(self._topics.checked(partition.topic), partition.partition, batch, self._clock.now())
            return Offset(self._topics.ends([partition], committed=False)[partition] - 1)
        append = self._append_one if batch.num_rows == 1 else self._append_all
        return append(partition, batch)

    def close(self) -> None:
        """Release the clients. There is nothing to flush: every append was confirmed."""
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        with self._lock:
            self._producer = None

    # --- one record -----------------------------------------------------------------------------------

    def _append_one(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        info = self._topics.checked(partition.topic)
        check_batch(info, partition.partition, batch, self._clock.now())
        with self._lock:
            if self._producer is None:
                self._producer = self._clients.producer(DEFAULTS)
            producer = self._producer
            # librdkafka might combine records of several threads into a request above the topic's limit.
            alone: AbstractContextManager[object] = (
                self._one_by_one[partition.topic] if is_small(info) else nullcontext()
            )
        report = _Report()
        with alone, translated_errors(f"the record cannot be appended to {partition}"):
            try:
                self._await(producer, partition, batch, report)
            except RAISED as cause:
                if error_of(cause).fatal():  # this producer is unusable from now on
                    self._drop(producer)
                raise
        if report.offset is None:
            raise LogError(
                "offset-unknown",
                f"the record was appended to {partition}, but the broker did not report its offset",
                "do not append it again; read the topic to find it",
            )
        return Offset(report.offset)

    def _await(
        self, producer: Producer, partition: TopicPartition, batch: pa.RecordBatch, report: _Report
    ) -> None:
        send(producer, partition, batch, last=report.take)
        deadline = time.monotonic() + APPEND_SECONDS
        while not report.done.is_set():  # another thread's poll may deliver the report
            producer.poll(NAP_SECONDS)
            if time.monotonic() > deadline:
                report.take(KafkaError(KafkaError._TIMED_OUT, "the broker does not answer"), None)
        if report.error is not None:
            if (unknown := unknown_append(report.error, partition)) is not None:
                raise unknown
            raise KafkaException(report.error)

    def _drop(self, producer: Producer) -> None:
        with self._lock:
            if self._producer is producer:
                self._producer = None

    # --- several records ------------------------------------------------------------------------------

    def _append_all(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        """Append in one transaction. If the writer fails before its commit, nothing was committed: its id may
        have expired since its last use, or the topic may have been recreated, with offsets below those that
        it knows. So retry once, with a new writer."""
        with self._writing:
            try:
                try:
                    writer, last = self._sent(partition, batch)
                except LogError as error:
                    if error.code not in _RETRIED:
                        raise
                    writer, last = self._sent(partition, batch)
                writer.commit()
            except FencedError as error:
                raise _aborted(partition, batch) from error
            except LogError as error:
                if error.code != COMMIT_UNKNOWN:
                    error.message = f"nothing was appended to {partition}: {error.message}"
                raise
        return last

    def _sent(self, partition: TopicPartition, batch: pa.RecordBatch) -> tuple[KafkaWriter, Offset]:
        if self._writer is None or self._writer.unusable:
            self._writer = KafkaWriter(self._clients, self._topics, self._clock, self._id)
        self._writer.append(partition, batch)
        return self._writer, Offset(self._writer.flush([partition])[partition] - 1)


class _Report:
    """The delivery report of one record."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self.error: KafkaError | None = None
        self.done = threading.Event()

    def take(self, error: KafkaError | None, message: Message | None) -> None:
        self.error = error
        self.offset = None if message is None else message.offset()
        self.done.set()


def _aborted(partition: TopicPartition, batch: pa.RecordBatch) -> LogError:
    return LogError(
        "append-aborted",
        f"the broker aborted the transaction of {batch.num_rows:,} records for {partition}: none is stored",
        "append fewer records at once, or raise transaction.timeout.ms under [kafka.producer]",
    )
