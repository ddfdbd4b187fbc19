"""Time-only records: how the stream time of a task reaches the tasks behind its internal topics.

Stream time crosses an internal topic with the records (`origin`). If a task drops what it reads, or writes to
other partitions only, time would stand still behind the topic, and so would windows and timers. So at a
commit the task writes to each partition that did not receive its time a record with the header
`tidegate.time` after the usual two: no key, no value, and no node sees it. At most one a second per
partition, none in the first second of a task, and none when the time has not advanced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Headers
from tidegate.runtime.output.origin import TIMES
from tidegate.runtime.output.outputs import Target
from tidegate.runtime.output.routes import Route

TIME = HEADER_PREFIX + "time"
MARK = (TIME, b"")
EVERY_MS = 1000


def is_time_only(headers: Headers) -> bool:
    """Return whether a record of an internal topic is time-only; the mark is its last header.

    The whole mark is compared: on Kafka a record of time 0 carries a header of the same name with another
    content, which its reader leaves there if a broker changed the time (`log/kafka/zero_time.py`).
    """
    return bool(headers) and tuple(headers[-1]) == MARK


def apart(batch: pa.RecordBatch, *, is_sorted: bool = False) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Split a batch of an internal topic into time-only records, one by one, and what lies between them. Each
    part comes with whether it is a time-only record. A batch that was handed over in memory with its times
    contains none; a sorted batch of a strict task has times too, and may contain some."""
    if batch.num_columns > TIMES and not is_sorted:
        yield batch, False
        return
    headers = batch.column(4)
    marked: Any = pc.indices_nonzero(pc.equal(pc.struct_field(headers.flatten(), [0]), MARK[0]))
    of_records = pc.list_parent_indices(headers).take(marked) if len(marked) else marked
    begin = 0
    for row in sorted({index for index in of_records.to_pylist() if is_time_only(_headers(headers[index]))}):
        if begin < row:
            yield batch.slice(begin, row - begin), False
        yield batch.slice(row, 1), True
        begin = row + 1
    if begin < batch.num_rows:
        yield batch.slice(begin), False


def _headers(row: Any) -> Headers:
    return [(pair["name"], pair["value"]) for pair in row.as_py() or ()]


class TimeOnlySender:
    """Tracks the time that each partition of a task's internal topics received."""

    def __init__(self, routes: Sequence[Route], sent: int, now: int) -> None:
        self._routes = routes
        self._sent = [[sent] * len(target.waiting) for target, *_ in routes]
        self._at = [[now] * len(target.waiting) for target, *_ in routes]

    def __bool__(self) -> bool:
        return bool(self._routes)

    def due(self, time: int, now: int, *, at_once: bool = False) -> Iterator[tuple[Target, int]]:
        """Yield target and partition of each time-only record to write. Called once per commit.
        Pending records carry the time, too; with `at_once` they do not count, since which of them are pending
        depends on the time of commits."""
        for (target, *_), sent, at in zip(self._routes, self._sent, self._at, strict=True):
            for partition, waiting in enumerate(target.waiting):
                pending = None if at_once else waiting.last_time()
                if pending is not None:
                    sent[partition] = max(sent[partition], pending)
                if time > sent[partition] and (at_once or now >= at[partition] + EVERY_MS):
                    sent[partition], at[partition] = time, now
                    yield target, partition

    def sent(self) -> int:
        """Return the time that every partition received: a restarted task continues from there."""
        return min(min(sent) for sent in self._sent)
