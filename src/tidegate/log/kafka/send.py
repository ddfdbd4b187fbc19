"""From an Arrow batch to librdkafka's queue."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidegate.log.checks import RECORD_OVERHEAD
from tidegate.log.kafka.zero_time import WRITTEN_AS, marked
from tidegate.types import TopicPartition

BATCH_BYTES = 1_000_000
"""librdkafka's batch.size: so much it may join, and the broker judges what was joined."""
SEND_SECONDS = 1.0
OnDelivery = Callable[[KafkaError | None, Message], None]
FULL_QUEUE_SECONDS = 0.05


def send(
    producer: Producer,
    partition: TopicPartition,
    batch: pa.RecordBatch,
    *,
    first: OnDelivery | None = None,
    last: OnDelivery | None = None,
) -> None:
    """Queue every record of the batch; the first and the last may be told where they went.

    Only those: a call of Python for each record would cost more than all else. Order is kept within a
    partition, so what the last one tells holds for those before it.
    """
    topic, number = partition
    produce, final = producer.produce, batch.num_rows - 1
    columns = (batch.column(index).to_pylist() for index in range(3))
    for index, (timestamp, key, value, headers) in enumerate(
        zip(*columns, _headers(batch.column(3)), strict=True)
    ):
        if not timestamp:
            timestamp, headers = WRITTEN_AS, marked(headers)  # noqa: PLW2901
        told = last if index == final and last is not None else first if index == 0 else None
        while True:
            try:
                if told is not None:
                    produce(topic, value, key, number, told, timestamp=timestamp, headers=headers)
                elif headers:
                    produce(topic, value, key, number, timestamp=timestamp, headers=headers)
                else:
                    produce(topic, value, key, number, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(FULL_QUEUE_SECONDS)


def send_all(producer: Producer, seconds: float, failed: Callable[[], bool]) -> None:
    """Wait until nothing is queued, or something failed."""
    deadline = time.monotonic() + seconds
    while producer.flush(SEND_SECONDS) and not failed():
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker does not take records"))


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The batch itself where it may be joined as librdkafka likes; for a topic that takes little at once,
    parts of it, to be sent one after the other."""
    size = batch.nbytes + RECORD_OVERHEAD * batch.num_rows
    if limit >= BATCH_BYTES + RECORD_OVERHEAD or size <= limit:
        yield batch
        return
    begin, taken = 0, 0
    for index in range(batch.num_rows):
        own = batch.slice(index, 1).nbytes + RECORD_OVERHEAD
        if index > begin and taken + own > limit:
            yield batch.slice(begin, index - begin)
            begin, taken = index, 0
        taken += own
    yield batch.slice(begin)


def _headers(column: pa.Array[Any]) -> Iterator[list[tuple[str, bytes | None]]]:
    """Of each record, without a dictionary for each header."""
    if column.null_count == len(column):
        yield from itertools.repeat([], len(column))
        return
    listed: Any = column
    names, values = (listed.values.field(number).to_pylist() for number in (0, 1))
    pairs = list(zip(names, values, strict=True))
    bounds = listed.offsets.to_pylist()
    for begin, end in itertools.pairwise(bounds):
        yield pairs[begin:end]
