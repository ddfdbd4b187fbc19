"""Orders in a log of their own: what all parts of `benchmarks.runtime` read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.apps.runtime_apps import ORDERS, Order
from tidegate.config.config import Config, load_config
from tidegate.log.ensure import ensure_topic
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.records import columns_to_batch
from tidegate.types import TopicPartition

PARTITIONS, KEYS, BATCH = 4, 100_000, 10_000
SOME_TIME = 1_700_000_000_000
NOTE = "a note of some length, as notes are"


@dataclass(frozen=True, slots=True)
class Place:
    """A log with orders, and the settings with which an app runs on it."""

    log: Log
    config: Config


def key_of(number: int, keys: int) -> bytes:
    """Every key comes once in each round over all keys, in an order that jumps about."""
    return b"customer-%d" % (number * 7919 % keys)


def value_of(number: int) -> bytes:
    return msgspec.json.encode(Order(number, number % 1000, NOTE))


@contextmanager
def fresh(records: int, *, partitions: int = PARTITIONS, keys: int = KEYS) -> Iterator[Place]:
    """A log of its own with so many orders in it, on the disk of the working folder: the place for
    temporary files may be memory, where a sync costs nothing."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as name:
        settings = {"log": "sqlite:///log.db", "partitions": partitions}
        config = load_config(settings, environ={}, folder=Path(name))
        with closing(open_log(LogLocation.of(config))) as log:
            ensure_topic(log, ORDERS.name, table=False, partitions=partitions, default=1, config={})
            fill(log, records, partitions, keys)
            yield Place(log, config)


def fill(log: Log, records: int, partitions: int = PARTITIONS, keys: int = KEYS) -> None:
    """Append orders, about ten thousand of a partition at a time."""
    step = BATCH * partitions
    for begin in range(0, records, step):
        numbers = range(begin, min(begin + step, records))
        columns: list[tuple[list[bytes], list[bytes]]] = [([], []) for _ in range(partitions)]
        for number in numbers:
            key = key_of(number, keys)
            mine, values = columns[partition_for(key, partitions)]
            mine.append(key)
            values.append(value_of(number))
        for partition, (mine, values) in enumerate(columns):
            if mine:
                batch = columns_to_batch([SOME_TIME] * len(mine), mine, values)
                log.append(TopicPartition(ORDERS.name, partition), batch)
