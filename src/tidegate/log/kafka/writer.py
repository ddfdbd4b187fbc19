"""The transactional writer on Kafka: one producer under one transactional id."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from typing import TypeVar

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.faultpoints import reach
from tidegate.log.checks import check_batch
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.send import pieces, send, send_all
from tidegate.log.kafka.topics import Topics
from tidegate.log.kafka.words import RAISED, error_of, in_words
from tidegate.types import Offset, TopicPartition

T = TypeVar("T")

TRANSACTION_MS = 10_000
LONGEST_TRANSACTION_MS = 900_000
"""What brokers take unless `transaction.max.timeout.ms` is set there."""
OPEN_SECONDS = 60.0
TRY_SECONDS = 1.0
ABORT_SECONDS = 5.0
DEFAULTS = {"transaction.timeout.ms": TRANSACTION_MS, "linger.ms": 20}
"""A flush sends at once; until then records gather."""
_ASK_AGAIN = (KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class Status(Enum):
    """idle ── append ──> open ── commit, abort ──> idle;  any error of the log, close ──> spent."""

    IDLE = "idle"
    OPEN = "open"
    SPENT = "spent"


class KafkaWriter:
    """One transaction after the other under one id.

    Commit: 1 send what is queued and wait until the broker has it; 7 end the transaction; 8 it counts. The
    steps between, which the embedded log numbers, happen in the broker. A commit whose result stays unknown
    spends the writer: who opens the next one waits until the broker has decided, and finds the positions as
    they are.
    """

    def __init__(
        self, clients: Clients, topics: Topics, clock: Clock, writer_id: str, open_seconds: float = 0.0
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._id = writer_id
        self._next: dict[TopicPartition, int] = {}
        self._touched: set[TopicPartition] = set()
        self._refused: KafkaError | None = None
        self._refused_by = ""
        limit = min(TRANSACTION_MS + int(1000 * open_seconds), LONGEST_TRANSACTION_MS)
        settings = {**DEFAULTS, "transaction.timeout.ms": limit, "transactional.id": writer_id}
        self._producer: Producer = clients.producer(settings)
        # After the transaction's own time the broker has decided, and a new writer learns how.
        self._patience = 2 * clients.producer_setting("transaction.timeout.ms", limit) / 1000
        self._status = Status.IDLE
        self._insist(self._producer.init_transactions, "cannot be opened", OPEN_SECONDS)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._check_open()
        info = self._topics.checked(partition.topic)
        check_batch(info, partition.partition, batch, self._clock.now())
        if not batch.num_rows:
            return
        with self._spending("records cannot be appended"):
            if self._status is Status.IDLE:
                self._producer.begin_transaction()
                self._status = Status.OPEN
            self._touched.add(partition)
            told = partial(self._delivered, partition)
            for piece in pieces(batch, info.setting("max.message.bytes")):
                send(self._producer, partition, piece, last=told)
                if piece is not batch:
                    self._send_all()
            self._producer.poll(0)

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        self._check_open()
        asked = list(partitions)
        with self._spending("records cannot be sent"):
            self._send_all()
        untouched = [partition for partition in asked if partition not in self._touched]
        ends = self._topics.ends(untouched, committed=False)
        return {one: Offset(self._next[one]) if one in self._touched else ends[one] for one in asked}

    def commit(self) -> None:
        self._check_open()
        reach("log.commit.1")
        if self._status is Status.OPEN:
            with self._spending("the transaction cannot be committed"):
                self._send_all()
                reach("log.commit.7")
                self._insist(self._producer.commit_transaction, "cannot be committed", self._patience)
                self._begin_anew()
                reach("log.commit.8")

    def abort(self) -> None:
        self._check_open()
        if self._status is Status.OPEN:
            with self._spending("the transaction cannot be aborted"):
                self._insist(self._producer.abort_transaction, "cannot be aborted", self._patience)
                self._begin_anew()

    def close(self) -> None:
        if self._status is Status.SPENT:
            return
        if self._status is Status.OPEN:
            # The broker would do it by itself when the time is up; others wait for that in vain.
            with suppress(*RAISED):
                self._producer.abort_transaction(ABORT_SECONDS)
        self._spend()

    # --- how it goes on -------------------------------------------------------------------------------

    def _send_all(self) -> None:
        """Until the broker has everything that is queued."""
        send_all(self._producer, self._patience, lambda: self._refused is not None)
        if self._refused is not None:
            raise KafkaException(self._refused)

    def _delivered(self, partition: TopicPartition, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._next[partition] = (message.offset() or 0) + 1
        elif self._refused is None:
            self._refused, self._refused_by = error, partition.topic

    def _insist(self, call: Callable[[float], T], what: str, seconds: float) -> None:
        """Again and again while librdkafka says that this helps."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                call(TRY_SECONDS)
            except RAISED as cause:
                error = error_of(cause)
                if not error.retriable() or time.monotonic() > deadline:
                    raise self._told(error, f"writer {self._id!r} {what}") from cause
            else:
                return

    @contextmanager
    def _spending(self, doing: str) -> Iterator[None]:
        """Whatever fails inside: nobody may go on from here."""
        try:
            yield
        except RAISED as cause:
            error = self._cause(cause)
            self._give_up(error)
            raise self._told(error, f"writer {self._id!r}: {doing}") from cause
        except BaseException:
            self._spend()
            raise

    def _cause(self, raised: BaseException) -> KafkaError:
        """What it was; a client that cannot go on tells when it is asked for more. Records that it dropped
        only tell that they were dropped."""
        error = error_of(raised)
        if error.code() in _ASK_AGAIN:
            try:
                self._producer.begin_transaction()
            except KafkaException as told:
                return error if error_of(told).code() == KafkaError._STATE else error_of(told)
        return error

    def _told(self, error: KafkaError, doing: str) -> LogError:
        told = in_words(error, doing, self._id)
        told.topic = self._refused_by
        return told

    def _give_up(self, error: KafkaError) -> None:
        if error.txn_requires_abort():
            with suppress(*RAISED):
                self._producer.abort_transaction(ABORT_SECONDS)
        self._spend()

    def _begin_anew(self) -> None:
        self._status = Status.IDLE
        self._touched, self._next = set(), {}

    def _spend(self) -> None:
        self._status = Status.SPENT
        self._touched, self._next = set(), {}
        del self._producer

    def _check_open(self) -> None:
        if self._status is Status.SPENT:
            raise LogError("writer-spent", f"writer {self._id!r} failed or was closed", "open a new writer")
