"""What a transactional writer needs of a producer, and the producer of confluent-kafka behind it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer

from tidegate.log.kafka.send import send
from tidegate.types import TopicPartition


class Refusal(NamedTuple):
    """A record that was not written."""

    topic: str
    error: KafkaError


class Misreport(NamedTuple):
    """A record that was written, with an offset that cannot be true: `lowest` is the lowest possible one."""

    partition: TopicPartition
    offset: int | None
    lowest: int


class Sender(Protocol):
    """Sends the records of one writer, and notes what the broker reports of them.

    Errors of the client are raised as KafkaException. Reports arrive during `queue`, `flush` and the calls
    that end a transaction.
    """

    def queue(self, partition: TopicPartition, batch: pa.RecordBatch) -> None: ...

    def flush(self, seconds: float) -> int:
        """Send what is queued; return how many records wait for their report after `seconds`."""
        ...

    def next_offset(self, partition: TopicPartition) -> int:
        """Return the offset after the last reported record, over all transactions; KeyError if none was."""
        ...

    def refusal(self) -> Refusal | None:
        """Return the first record that was refused since `reset`."""
        ...

    def misreport(self) -> Misreport | None:
        """Return the first impossible offset since `reset`."""
        ...

    def reset(self) -> None: ...

    def init_transactions(self, seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def commit_transaction(self, seconds: float) -> None: ...

    def abort_transaction(self, seconds: float) -> None: ...


class ClientSender:
    """Queues one record after the other in the producer of confluent-kafka."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._next: dict[TopicPartition, int] = {}
        self._refusal: Refusal | None = None
        self._misreport: Misreport | None = None

    def queue(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        first = partial(self._delivered, partition, 0)
        last = partial(self._delivered, partition, max(0, batch.num_rows - 2))
        send(self._producer, partition, batch, first=first, last=last)
        self._producer.poll(0)

    def flush(self, seconds: float) -> int:
        return self._producer.flush(seconds)

    def next_offset(self, partition: TopicPartition) -> int:
        return self._next[partition]

    def refusal(self) -> Refusal | None:
        return self._refusal

    def misreport(self) -> Misreport | None:
        return self._misreport

    def reset(self) -> None:
        self._refusal = self._misreport = None

    def init_transactions(self, seconds: float) -> None:
        self._producer.init_transactions(seconds)

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def commit_transaction(self, seconds: float) -> None:
        self._producer.commit_transaction(seconds)

    def abort_transaction(self, seconds: float) -> None:
        self._producer.abort_transaction(seconds)

    def _delivered(
        self, partition: TopicPartition, between: int, error: KafkaError | None, message: Message
    ) -> None:
        """Handle the delivery report of a record, with `between` unreported records before it.

        Its offset must be known and above theirs. A broker that got a request twice may answer without an
        offset; librdkafka then counts up from -1, and reports what looks like one of the partition's first
        offsets.
        """
        offset, lowest = message.offset(), self._next.get(partition, 0) + between
        if error is not None:
            self._refusal = self._refusal or Refusal(partition.topic, error)
        elif offset is None or offset < lowest:
            self._misreport = self._misreport or Misreport(partition, offset, lowest)
        else:
            self._next[partition] = offset + 1
