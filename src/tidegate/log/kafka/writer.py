"""The transactional writer on Kafka: one producer under one transactional id."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import TypeVar

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log.checks import check_batch
from tidegate.log.faultpoints import reach
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.error_mapping import (
    RAISED,
    UNNAMED,
    UNREACHABLE,
    error_of,
    raised_by,
    translate_error,
    unknown_commit,
)
from tidegate.log.kafka.send import is_small, pieces, size_of
from tidegate.log.kafka.sender import Misreport, Sender
from tidegate.log.kafka.topics import Topics
from tidegate.log.topic import TopicInfo
from tidegate.types import Offset, TopicPartition

T = TypeVar("T")

TRANSACTION_MS = 10_000
LONGEST_TRANSACTION_MS = 900_000
"""The longest timeout that brokers accept unless they set `transaction.max.timeout.ms`."""
OPEN_SECONDS = 60.0
SEND_SECONDS = 1.0
TRY_SECONDS = 1.0
ABORT_SECONDS = 5.0
DEFAULTS = {"transaction.timeout.ms": TRANSACTION_MS, "linger.ms": 20}
"""A flush sends at once; until then librdkafka batches records."""
_UNSPECIFIC = (KafkaError._FATAL, KafkaError._STATE, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class KafkaWriterStatus(Enum):
    """idle ── append ──> open ── commit, abort ──> idle;  any error of the log, close ──> unusable."""

    IDLE = "idle"
    OPEN = "open"
    UNUSABLE = "unusable"


class KafkaWriter:
    """Writes one transaction after the other under one id.

    Commit: 1 send what is queued and wait until the broker has it; 7 end the transaction; 8 it is committed.
    The steps between, which the embedded log numbers, happen in the broker. Until 7 nothing is committed,
    whatever the error. A commit request that gets no answer is `commit-unknown` and makes the writer
    unusable: opening the next writer waits until the broker has decided, and then the positions show the
    outcome."""

    def __init__(
        self, clients: Clients, topics: Topics, clock: Clock, writer_id: str, open_seconds: float = 0.0
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._id = writer_id
        self._touched: set[TopicPartition] = set()
        self._queued: dict[TopicPartition, int] = {}
        """Bytes that librdkafka may still combine into one request."""
        limit = min(TRANSACTION_MS + int(1000 * open_seconds), LONGEST_TRANSACTION_MS)
        settings = {**DEFAULTS, "transaction.timeout.ms": limit, "transactional.id": writer_id}
        self._sender: Sender = clients.sender(settings)
        # After the transaction's timeout the broker has decided, and a new writer can read the outcome.
        self._patience = 2 * clients.producer_setting("transaction.timeout.ms", limit) / 1000
        self._status = KafkaWriterStatus.IDLE
        self._retry(self._sender.init_transactions, "cannot be opened", OPEN_SECONDS)

    @property
    def unusable(self) -> bool:
        """Whether the writer failed or was closed."""
        return self._status is KafkaWriterStatus.UNUSABLE

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._check_open()
        info = self._topics.checked(partition.topic)
        check_batch(info, partition.partition, batch, self._clock.now())
        if not batch.num_rows:
            return
        with self._unusable_on_error("records cannot be appended"):
            if self._status is KafkaWriterStatus.IDLE:
                self._sender.begin_transaction()
                self._status = KafkaWriterStatus.OPEN
            self._touched.add(partition)
            for piece in pieces(batch, info):
                self._make_room(info, partition, piece)
                self._sender.queue(partition, piece)

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        self._check_open()
        listed = list(partitions)
        with self._unusable_on_error("records cannot be sent"):
            self._send_all()
        untouched = [partition for partition in listed if partition not in self._touched]
        ends = self._topics.ends(untouched, committed=False)
        return {
            one: Offset(self._sender.next_offset(one)) if one in self._touched else ends[one]
            for one in listed
        }

    def commit(self) -> dict[TopicPartition, Offset]:
        """Returns no offsets: records of other producers may lie between those of a transaction."""
        self._check_open()
        reach("log.commit.1")
        if self._status is KafkaWriterStatus.OPEN:
            with self._unusable_on_error("the transaction cannot be committed"):
                self._send_all()
                reach("log.commit.7")
                self._end_transaction()
                self._reset()
                reach("log.commit.8")
        return {}

    def abort(self) -> None:
        self._check_open()
        if self._status is KafkaWriterStatus.OPEN:
            with self._unusable_on_error("the transaction cannot be aborted"):
                self._retry(self._sender.abort_transaction, "cannot be aborted", self._patience)
                self._reset()

    def close(self) -> None:
        if self._status is KafkaWriterStatus.UNUSABLE:
            return
        if self._status is KafkaWriterStatus.OPEN:
            # The broker aborts by itself only after the timeout; until then other readers would be blocked.
            self._abort_or_leave()
        self._make_unusable()

    # --- sending and errors ---------------------------------------------------------------------------

    def _make_room(self, info: TopicInfo, partition: TopicPartition, piece: pa.RecordBatch) -> None:
        """Send what is queued first, if librdkafka might combine it with these records above the topic's
        limit."""
        if not is_small(info):
            return
        size = size_of(piece)
        if self._queued.get(partition, 0) + size > info.setting("max.message.bytes"):
            self._send_all()
        self._queued[partition] = self._queued.get(partition, 0) + size

    def _send_all(self) -> None:
        """Wait until the broker has everything that is queued."""
        deadline = time.monotonic() + self._patience
        while self._sender.flush(SEND_SECONDS) and self._sender.refusal() is None:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker does not accept records"))
        if (refusal := self._sender.refusal()) is not None:
            raise KafkaException(refusal.error)
        if (misreport := self._sender.misreport()) is not None:
            raise _misreported(self._id, misreport)
        self._queued = {}

    def _end_transaction(self) -> None:
        """Send the commit request, and raise `commit-unknown` if the broker may have committed unnoticed.

        It has not committed if the client refused to send the request, or if the first answer was a refusal.
        A later refusal may refer to a transaction that an earlier request has already ended. librdkafka
        repeats requests by itself. A process that got no CPU for a while sees only the last answer, so the
        answer of a call that returns late does not count as the first one.
        """
        started, first = time.monotonic(), True
        deadline = started + self._patience
        while True:
            try:
                self._sender.commit_transaction(TRY_SECONDS)
            except RAISED as cause:
                error = self._cause(cause)
                if error.retriable() and time.monotonic() < deadline:
                    first = False
                    continue
                code = translate_error(error, "", self._id).code
                first = first and time.monotonic() - started < TRY_SECONDS
                if first and code != UNREACHABLE and (error.txn_requires_abort() or code != UNNAMED):
                    raise
                raise unknown_commit(error, self._id) from cause
            else:
                return

    def _retry(self, call: Callable[[float], T], what: str, seconds: float) -> None:
        """Repeat the call, up to `seconds`, while librdkafka reports a retriable error."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                call(TRY_SECONDS)
            except RAISED as cause:
                error = error_of(cause)
                if not error.retriable() or time.monotonic() > deadline:
                    raise self._translated(error, f"writer {self._id!r} {what}") from cause
            else:
                return

    @contextmanager
    def _unusable_on_error(self, doing: str) -> Iterator[None]:
        """Make the writer unusable if anything fails inside."""
        try:
            yield
        except RAISED as cause:
            error = self._cause(cause)
            if error.txn_requires_abort():
                self._abort_or_leave()
            translated = self._translated(error, f"writer {self._id!r}: {doing}")
            self._make_unusable()
            raise translated from cause
        except LogError:
            if self._sender.misreport() is not None:
                self._abort_or_leave()
            self._make_unusable()
            raise
        except BaseException:
            self._make_unusable()
            raise

    def _cause(self, raised: BaseException) -> KafkaError:
        """Return the underlying error. Once the transaction or the client has failed, sending a record only
        reports the client's state, or that the record was dropped; the next transactional call reports the
        cause."""
        error = error_of(raised)
        if error.code() in _UNSPECIFIC:
            again = raised_by(self._sender.begin_transaction)
            if isinstance(again, KafkaException) and error_of(again).code() != KafkaError._STATE:
                return error_of(again)
        return error

    def _translated(self, error: KafkaError, doing: str) -> LogError:
        translated = translate_error(error, doing, self._id)
        refusal = self._sender.refusal()
        translated.topic = "" if refusal is None else refusal.topic
        return translated

    def _abort_or_leave(self) -> None:
        """Abort the transaction. If that fails, the broker aborts it after its timeout."""
        raised = raised_by(partial(self._sender.abort_transaction, ABORT_SECONDS))
        if raised is not None and not isinstance(raised, RAISED):
            raise raised

    def _reset(self) -> None:
        """Clear the transaction's state, including delivery reports of records that an abort dropped."""
        self._status = KafkaWriterStatus.IDLE
        self._touched, self._queued = set(), {}
        self._sender.reset()

    def _make_unusable(self) -> None:
        self._status = KafkaWriterStatus.UNUSABLE
        self._touched, self._queued = set(), {}
        del self._sender

    def _check_open(self) -> None:
        if self._status is KafkaWriterStatus.UNUSABLE:
            raise LogError("writer-spent", f"writer {self._id!r} failed or was closed", "open a new writer")


def _misreported(writer: str, found: Misreport) -> LogError:
    got = f"offset {found.offset}, although {found.lowest} is the lowest possible,"
    return LogError(
        "offset-unknown",
        f"the broker reported {'no offset' if found.offset is None else got} for a record of writer"
        f" {writer!r} in {found.partition}; its transaction is not committed",
        "open the writer again and write the records again",
        retryable=True,
    )
