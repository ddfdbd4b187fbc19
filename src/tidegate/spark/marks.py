"""Marks of writes by Spark, in a compacted topic of their own.

    call     a batch call, by its owner: "open" or "closed". No mark means "closed"
    begun    an attempt of a task that may hold the task's writer; the attempt removes it when it ends
    written  a task of a call, or a streaming query with its last micro-batch, is committed

An attempt that stalls on a lost executor may resume long after its call has ended and its marks were removed.
So a call is open only while its mark is there, and it ends in this order: 1 mark it closed; 2 open, and so
fence, the writer of each attempt that has begun and not ended; 3 remove its marks. An attempt that opens its
writer after step 2 finds the call closed, or no call at all; one that opened it before cannot commit
any more. If the end itself fails half-way, the marks of what is written are still there, and nothing is
written twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from tidegate.errors import LogError
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

MARKS = TopicPartition("tidegate-frame-writes", 0)
MARKS_TOPIC = TopicSpec(MARKS.topic, 1, {"cleanup.policy": "compact"})
OPEN, CLOSED = b"open", b"closed"
STALE_MS = 7 * 24 * 3600 * 1000
"""A call whose driver was killed leaves its marks behind; the next call that ends later than this removes
them, which closes it."""
FENCED_AT_ONCE = 8
PATIENCE_SECONDS = 120.0
"""Marks may be part of open transactions of other tasks, which can take this long on a slow log."""


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The owner of a mark, and the part of the work that it is about."""

    owner: str
    number: int
    kind: Literal["written", "call", "begun"] = "written"
    attempt: str = ""


class MarkValue(NamedTuple):
    """The newest value of a mark, and when it was written."""

    value: bytes
    time: int


_mark = msgspec.json.Decoder(Mark)


def read_marks(log: Log) -> dict[Mark, MarkValue]:
    """Read all committed marks. Open your writer first: see `read_to_end`."""
    found: dict[Mark, MarkValue] = {}
    start = Offset(log.describe(MARKS.topic).starts[0])
    for fetched in read_to_end(log, {MARKS: start}, patience=PATIENCE_SECONDS):
        times, keys, values = (fetched.batch.column(number).to_pylist() for number in (1, 2, 3))
        for time, key, value in zip(times, keys, values, strict=True):
            mark = _mark.decode(key)
            found.pop(mark, None)
            if value is not None:
                found[mark] = MarkValue(value, time)
    return found


def row_of(mark: Mark, value: bytes | None, now: int) -> Row:
    """Return a mark as a record; no value removes it."""
    return Row(msgspec.json.encode(mark), value, now)


def put_marks(log: Log, rows: Iterable[Row]) -> None:
    """Write marks outside of any transaction."""
    listed = list(rows)
    if listed:
        log.append(MARKS, to_batch(listed))


def writer_id(owner: str, number: int) -> str:
    """Return the writer id of one task of a call."""
    return f"tidegate.frames.{owner}.{number}"


def open_call(log: Log, owner: str, now: int) -> None:
    """Mark a call as open: its tasks may write."""
    put_marks(log, [row_of(Mark(owner, 0, "call"), OPEN, now)])


def is_open(marks: dict[Mark, MarkValue], owner: str) -> bool:
    """Return whether tasks of this call may write."""
    mark = marks.get(Mark(owner, 0, "call"))
    return mark is not None and mark.value == OPEN


def close_call(log: Log, owner: str, now: int) -> None:
    """End a call by the steps above, and close calls whose driver was killed long ago."""
    put_marks(log, [row_of(Mark(owner, 0, "call"), CLOSED, now)])
    marks = read_marks(log)
    stale = {
        mark.owner for mark, found in marks.items() if mark.kind != "written" and found.time < now - STALE_MS
    } - {owner}
    put_marks(log, [row_of(Mark(one, 0, "call"), CLOSED, now) for one in stale])
    ending = {owner, *stale}
    ending_marks = [mark for mark in marks if mark.owner in ending]
    reach("frames.close.2")
    begun = {writer_id(mark.owner, mark.number) for mark in ending_marks if mark.kind == "begun"}
    with ThreadPoolExecutor(FENCED_AT_ONCE) as pool:
        list(pool.map(partial(_fence, log), begun))
    reach("frames.close.3")
    put_marks(log, [row_of(mark, None, now) for mark in {*ending_marks, Mark(owner, 0, "call")}])


def call_ended(topic: str) -> LogError:
    """Return the error for an attempt that runs after its call has ended."""
    return LogError(
        "call-ended",
        f"the write_topic call to {topic!r} that this task belongs to has ended; nothing is written",
        "nothing: another attempt wrote these rows, or the call failed and raised an error",
    )


def _fence(log: Log, writer: str) -> None:
    log.writer(writer).close()
