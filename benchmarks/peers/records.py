"""The records that all engines count: 100,000 keys in turn, values of about 100 bytes, known partitions."""

from __future__ import annotations

import functools
import time

from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.records import columns_to_batch
from tidegate.types import TopicPartition

PARTITIONS, KEYS = 4, 100_000
VALUE = (
    b"a value of one hundred bytes, which no engine looks at: it is only carried from one end to the other"
)
STEP = 200_000


def key_of(number: int) -> bytes:
    """Every key comes once in each round over all keys, in an order that jumps about."""
    return b"customer-%d" % (number * 7919 % KEYS)


@functools.cache
def partition_of(key: bytes) -> int:
    """As Kafka does it: an engine's output lies in the partition of its input."""
    return partition_for(key, PARTITIONS)


@functools.cache
def first_of_each_partition() -> tuple[bytes, ...]:
    """One key for each partition."""
    found: dict[int, bytes] = {}
    number = 0
    while len(found) < PARTITIONS:
        found.setdefault(partition_of(key_of(number)), key_of(number))
        number += 1
    return tuple(found[partition] for partition in range(PARTITIONS))


def fill(log: Log, topic: str, records: int) -> None:
    """Append so many."""
    for begin in range(0, records, STEP):
        append(log, topic, [key_of(number) for number in range(begin, min(begin + STEP, records))])


def append(log: Log, topic: str, keys: list[bytes]) -> None:
    """Append a record for each key, each to its partition."""
    now = time.time_ns() // 1_000_000
    parts: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for key in keys:
        parts[partition_of(key)].append(key)
    for partition, mine in enumerate(parts):
        if mine:
            batch = columns_to_batch([now] * len(mine), mine, [VALUE] * len(mine))
            log.append(TopicPartition(topic, partition), batch)
