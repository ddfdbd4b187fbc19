"""Queue the records of an Arrow batch in librdkafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise, repeat
from operator import length_hint
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Message, Producer

from tidegate.log.checks import RECORD_OVERHEAD
from tidegate.log.kafka.zero_time import WRITTEN_AS, marked
from tidegate.log.topic import TopicInfo
from tidegate.types import TopicPartition

BATCH_BYTES = 1_000_000
"""librdkafka's batch.size: it may combine records up to this size, and the broker checks the result."""
Pairs = list[tuple[str, bytes | None]]
OnDelivery = Callable[[KafkaError | None, Message], None]
FULL_QUEUE_SECONDS = 0.05


def send(
    producer: Producer,
    partition: TopicPartition,
    batch: pa.RecordBatch,
    *,
    first: OnDelivery | None = None,
    last: OnDelivery,
) -> None:
    """Queue every record of the batch; only the deliveries of the first and the last record are reported.

    A Python callback for each record would cost more than everything else. So this is for a single record, or
    for a transaction, which librdkafka refuses to commit if any of its records was lost.
    """
    times, keys, values = (batch.column(index).to_pylist() for index in range(3))
    records = _Columns(times, keys, values, _headers(batch.column(3)))
    if 0 in records.timestamps:
        records = _with_zeros(records)
    begin, end = 0, batch.num_rows
    if first is not None and end > 1:
        _queue(producer, partition, records.part(0, 1), first)
        begin = 1
    _queue(producer, partition, records.part(begin, end - 1), None)
    _queue(producer, partition, records.part(end - 1, end), last)


class _Columns(NamedTuple):
    """Records as lists; fastest without any headers."""

    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Pairs] | None

    def part(self, begin: int, end: int) -> _Columns:
        headers = None if self.headers is None else self.headers[begin:end]
        return _Columns(self.timestamps[begin:end], self.keys[begin:end], self.values[begin:end], headers)


def _queue(
    producer: Producer, partition: TopicPartition, records: _Columns, on_delivery: OnDelivery | None
) -> None:
    """Queue the records with `map` and positional arguments: keywords and a Python loop take half as long
    again. A record that finds the queue full is retried, with those after it."""
    topic, number = partition
    left = records
    while left.values:
        at = iter(left.values)
        arguments: list[Any] = [
            repeat(topic),
            at,
            left.keys,
            repeat(number),
            repeat(on_delivery),
            repeat(None),
        ]
        arguments.append(left.timestamps)
        if left.headers is not None:
            arguments.append(left.headers)
        try:
            deque(map(producer.produce, *arguments), maxlen=0)
        except BufferError:
            count = len(left.values)
            left = left.part(count - length_hint(at) - 1, count)
            producer.poll(FULL_QUEUE_SECONDS)
        else:
            return


def _with_zeros(records: _Columns) -> _Columns:
    """Rewrite records with timestamp 0 into the form that librdkafka can write."""
    count = len(records.timestamps)
    headers: list[Pairs] = [[] for _ in range(count)] if records.headers is None else list(records.headers)
    for index, timestamp in enumerate(records.timestamps):
        if not timestamp:
            headers[index] = marked(headers[index])
    times = [timestamp or WRITTEN_AS for timestamp in records.timestamps]
    return _Columns(times, records.keys, records.values, headers)


def is_small(info: TopicInfo) -> bool:
    """Whether librdkafka might combine records into a request above the topic's limit."""
    return info.setting("max.message.bytes") < BATCH_BYTES + RECORD_OVERHEAD


def size_of(batch: pa.RecordBatch) -> int:
    """Return an upper bound of the bytes that the broker counts for the batch."""
    size: int = batch.nbytes + RECORD_OVERHEAD * batch.num_rows
    return size


def pieces(batch: pa.RecordBatch, info: TopicInfo) -> Iterator[pa.RecordBatch]:
    """Yield the batch itself, or for a topic with a small limit, parts of it to send one after the other."""
    limit = info.setting("max.message.bytes")
    if not is_small(info) or size_of(batch) <= limit:
        yield batch
        return
    begin, taken = 0, 0
    for index in range(batch.num_rows):
        size = size_of(batch.slice(index, 1))
        if index > begin and taken + size > limit:
            yield batch.slice(begin, index - begin)
            begin, taken = index, 0
        taken += size
    yield batch.slice(begin)


def _headers(column: pa.Array[Any]) -> list[Pairs] | None:
    """Return the headers of each record, without building a dict for each header."""
    if column.null_count == len(column):
        return None
    listed: Any = column
    names, values = (listed.values.field(number) for number in (0, 1))
    if _same_for_all(listed):
        first = listed[0].as_py()[0]
        return [[(first["name"], first["value"])]] * len(listed)
    names, values = names.to_pylist(), values.to_pylist()
    pairs = list(zip(names, values, strict=True))
    return [pairs[begin:end] for begin, end in pairwise(listed.offsets.to_pylist())]


def _same_for_all(column: pa.Array[Any]) -> bool:
    """Whether each record has one header, and all the same: rows of a table topic have their owner."""
    if column.null_count or not pc.all(pc.equal(pc.list_value_length(column), 1)).as_py():
        return False
    pairs = column.flatten()
    names, contents = (pc.struct_field(pairs, [number]) for number in (0, 1))
    return not contents.null_count and all(
        bool(pc.all(pc.equal(part, part[0])).as_py()) for part in (names, contents)
    )
