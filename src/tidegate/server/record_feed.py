"""New records of some topics, as a stream sends them: all of them, those of one key, or so many a second.

Without a limit nothing is lost: the caller polls when it has sent what it got, and what it has not polled
stays in the log. With a limit the newest records of each poll are returned as far as the limit allows, and
the others are counted as skipped. A feed that falls behind then goes on near the end; offsets that it leaves
out count as skipped, too. Records of other keys are not counted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.merged import LocatedRow
from tidegate.log.protocol import Fetched, Log, Reader
from tidegate.log.records import rows_of
from tidegate.types import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records of a topic are wanted."""

    key: bytes | None = None
    per_second: float | None = None


@dataclass(slots=True)
class Polled:
    """What one poll returned."""

    rows: list[LocatedRow] = field(default_factory=list)
    """By timestamp, in the order of each partition."""
    skipped: Counter[str] = field(default_factory=Counter)
    """How many records were left out because of the limit, by topic."""
    next: dict[TopicPartition, int] = field(default_factory=dict)
    """The positions behind what was read."""


class RecordFeed:
    """Reads some topics from positions on. `poll` is called by one thread at a time; `close` by any."""

    def __init__(
        self, log: Log, positions: Mapping[TopicPartition, int], selections: Mapping[str, Selection]
    ) -> None:
        self._log = log
        self._positions = {partition: Offset(at) for partition, at in positions.items()}
        self._selections = selections
        self._reading = threading.Lock()
        self._reader: Reader | None = None
        self._allowed = {topic: one.per_second or 0.0 for topic, one in selections.items()}
        """How many records may be returned now, of topics with a limit."""
        self._polled_at = time.monotonic()

    @property
    def is_limited(self) -> bool:
        """Whether any topic has a limit."""
        return any(one.per_second is not None for one in self._selections.values())

    def open(self) -> None:
        """Open the reader. Errors of positions are raised here or by the first poll."""
        self._reader = self._log.reader(self._positions)

    def close(self) -> None:
        """Close the reader as soon as it is not in use. May be called again."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def poll(self, seconds: float) -> Polled:
        """Return what came since the last poll; wait up to so many seconds if there is nothing."""
        with self._reading:
            reader = self._reader
            fetched = [] if reader is None else reader.poll(seconds)
            polled = Polled(next={part.partition: int(part.next) for part in fetched})
            self._add_allowance()
            by_topic: dict[str, list[Fetched]] = {}
            for part in fetched:
                by_topic.setdefault(part.partition.topic, []).append(part)
            chosen = [self._choose(topic, parts, polled) for topic, parts in by_topic.items()]
            polled.rows = list(merge(*chosen, key=_order))
            if reader is not None:
                self._catch_up(reader, polled)
        return polled

    def _add_allowance(self) -> None:
        now = time.monotonic()
        passed, self._polled_at = now - self._polled_at, now
        for topic, one in self._selections.items():
            if one.per_second is not None:
                most = max(1.0, one.per_second)
                self._allowed[topic] = min(most, self._allowed[topic] + passed * one.per_second)

    def _choose(self, topic: str, parts: list[Fetched], polled: Polled) -> list[LocatedRow]:
        """The records of a topic that are returned."""
        selection = self._selections[topic]
        batches = [(part.partition, _of_key(part.batch, selection.key)) for part in parts]
        if selection.per_second is None:
            return list(merge(*(_located(*one) for one in batches), key=_order))
        limit = int(self._allowed[topic])
        total = sum(batch.num_rows for _, batch in batches)
        newest = [(one, batch.slice(max(0, batch.num_rows - limit))) for one, batch in batches]
        rows = list(merge(*(_located(*one) for one in newest), key=_order))[-limit:] if limit else []
        self._allowed[topic] -= len(rows)
        if total > len(rows):
            polled.skipped[topic] += total - len(rows)
        return rows

    def _catch_up(self, reader: Reader, polled: Polled) -> None:
        """Go on near the end in partitions of topics with a limit and without a key."""
        behind = [
            one
            for one in polled.next
            if self._selections[one.topic].per_second is not None
            and self._selections[one.topic].key is None
            and not reader.at_end(one)
        ]
        for partition, end in self._log.ends(behind).items() if behind else ():
            at = polled.next[partition]
            target = int(end) - int(max(1.0, self._selections[partition.topic].per_second or 1.0))
            if target > at:
                reader.seek(partition, Offset(target))
                polled.next[partition] = target
                polled.skipped[partition.topic] += target - at


def _of_key(batch: pa.RecordBatch, key: bytes | None) -> pa.RecordBatch:
    if key is None:
        return batch
    return batch.filter(pc.equal(batch.column(2), pa.scalar(key, pa.binary())))


def _located(partition: TopicPartition, batch: pa.RecordBatch) -> Iterator[LocatedRow]:
    return ((partition, row) for row in rows_of(batch))


def _order(located: LocatedRow) -> tuple[int, TopicPartition]:
    return located[1].timestamp, located[0]
