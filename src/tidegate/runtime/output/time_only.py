"""Time-only records: how the stream time of a task reaches those behind its internal topics.

Stream time crosses an internal topic with the records (`origin`). A task that drops what it reads, or writes
to other partitions only, would leave the time there behind, and windows and timers with it. So at a commit it
writes to each partition that did not receive its time a record with the header `tidegate.time` behind the
usual two: no key, no value, and never seen by a node. At most one a second for each partition, none in the
first second of a task, and none when the time has not advanced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Headers
from tidegate.runtime.output.origin import origin_of
from tidegate.runtime.output.outputs import Target
from tidegate.runtime.output.routes import Route

TIME = HEADER_PREFIX + "time"
MARK = (TIME, b"")
EVERY_MS = 1000


def is_time_only(headers: Headers) -> bool:
    """Whether a record of an internal topic only carries the time; the mark is its last header.

    The whole mark: on Kafka a record of time 0 carries a header of the same name with another content, which
    its reader leaves there if a broker changed the time (`log/kafka/zero_time.py`).
    """
    return bool(headers) and tuple(headers[-1]) == MARK


def any_time_only(headers: pa.Array[Any]) -> bool:
    """Whether one of many records of an internal topic does."""
    pairs = headers.flatten()
    names, contents = (pc.struct_field(pairs, [number]) for number in (0, 1))
    marks: Any = pc.and_(pc.equal(names, MARK[0]), pc.equal(contents, MARK[1]))
    return bool(pc.any(marks).as_py())


class TimeOnlySender:
    """Knows the time that each partition of a task's internal topics received."""

    def __init__(self, routes: Sequence[Route], sent: int, now: int) -> None:
        self._routes = routes
        self._sent = [[sent] * len(target.waiting) for target, _ in routes]
        self._at = [[now] * len(target.waiting) for target, _ in routes]

    def __bool__(self) -> bool:
        return bool(self._routes)

    def due(
        self, time: int, now: int, *, at_once: bool = False
    ) -> Iterator[tuple[Target, tuple[str, bytes], int]]:
        """Called once for each commit: target, owner header and partition of each time-only record to write.
        Records that wait for the commit carry the time, too; with `at_once` they do not count, since which of
        them still wait depends on when there was a commit."""
        for (target, owner), sent, at in zip(self._routes, self._sent, self._at, strict=True):
            for partition, waiting in enumerate(target.waiting):
                origin = origin_of(waiting.last_headers())
                if origin is not None and not at_once:
                    sent[partition] = max(sent[partition], origin.time)
                if time > sent[partition] and (at_once or now >= at[partition] + EVERY_MS):
                    sent[partition], at[partition] = time, now
                    yield target, owner, partition

    def sent(self) -> int:
        """The time that every partition received: a task that starts again goes on from there."""
        return min(min(sent) for sent in self._sent)
