"""The records that the parts `switch` and `reset` of `benchmarks.upgrade` count.

Each key comes equally often, in an order that jumps about. A value ends with the number of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from tidegate.log.partition_column import partition_column
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import columns_to_batch
from tidegate.log.route import partitions_of
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

PARTITIONS, RECORDS_PER_KEY, STEP = 4, 2, 100_000
KEYS, QUICK_KEYS = 1_000_000, 50_000
SOURCE, SOME_TIME = "source", 1_700_000_000_000
VALUE = (
    b"a value of about one hundred bytes, whose end is all that any engine looks at, and only if it has to: "
)


def fill(log: Log, keys: int) -> None:
    """Create the source, and append to it."""
    log.create(TopicSpec(SOURCE, PARTITIONS, {"retention.ms": "-1"}))
    records = RECORDS_PER_KEY * keys
    for begin in range(0, records, STEP):
        numbers = range(begin, min(begin + STEP, records))
        append(log, [number * 7919 % keys for number in numbers])


def append(log: Log, of_keys: list[int]) -> None:
    """Append a record for each of these keys."""
    names = pa.array([b"customer-%d" % key for key in of_keys], pa.binary())
    homes = partition_column(names, PARTITIONS).to_pylist()
    parts: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for key, home in zip(of_keys, homes, strict=True):
        parts[home].append(key)
    for number, mine in enumerate(parts):
        if mine:
            rows = [b"customer-%d" % key for key in mine], [VALUE + b"%02d" % key for key in mine]
            log.append(TopicPartition(SOURCE, number), columns_to_batch([SOME_TIME] * len(mine), *rows))


def one_of_each_partition(keys: int) -> list[int]:
    """Return a key of each partition that both versions count."""
    numbers = [number for number in range(min(keys, 10_000)) if number % 100]
    homes = partition_column(pa.array([b"customer-%d" % key for key in numbers], pa.binary()), PARTITIONS)
    found = dict(zip(reversed(homes.to_pylist()), reversed(numbers), strict=True))
    return [found[number] for number in range(PARTITIONS)]


def removed_keys(keys: int) -> int:
    """Return how many keys the second version does not count."""
    return sum((b"%02d" % number).endswith(b"00") for number in range(keys))


class Output:
    """The table topic of an engine, as a committed reader sees it."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._partitions = partitions_of(log.describe(topic))
        self._start = dict(log.ends(self._partitions))

    def mark(self) -> None:
        """Count from here."""
        self._start = dict(self._log.ends(self._partitions))

    def records(self) -> tuple[int, int]:
        """Return how many records were written since, and how many of them are tombstones."""
        found = [(batch.num_rows, batch.column(3).null_count) for batch in self._batches(self._start)]
        return sum(rows for rows, _ in found), sum(nulls for _, nulls in found)

    def rows(self) -> dict[bytes, bytes]:
        """Return the newest value of each key."""
        newest: dict[bytes, bytes | None] = {}
        for batch in self._batches(dict.fromkeys(self._partitions, 0)):
            newest.update(zip(batch.column(2).to_pylist(), batch.column(3).to_pylist(), strict=True))
        return {key: value for key, value in newest.items() if value is not None}

    def _batches(self, start: Mapping[TopicPartition, int]) -> Iterator[pa.RecordBatch]:
        ends = self._log.ends(self._partitions)
        for partition in self._partitions:
            yield from read_between(self._log, partition, start[partition], ends[partition])
