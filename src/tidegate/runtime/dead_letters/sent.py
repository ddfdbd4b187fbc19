"""Which dead letters were sent back: when, by whom, why, and where to.

The topic `<app>-redrives` has a record for each dead letter that was sent back, by its offset; it is
compacted. The record is written before the letter is sent, and again afterwards, with its offset in the
source topic. So a letter that may have been sent before a crash counts as sent. Of several calls at the same
time that would send a letter, the one whose record is first sends it. Records name the dead-letter topic by
its id, since offsets count from 0 again after a reset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidegate.log import names
from tidegate.log.ensure import ensure_topic, find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.types import TopicPartition


class Sent(msgspec.Struct, frozen=True):
    """A dead letter that was sent back."""

    letters: str
    """The id of the dead-letter topic."""
    offset: int
    at: int
    """When, in ms."""
    by: str
    reason: str
    topic: str
    partition: int
    to_offset: int | None = None
    """None while it is sent. If it stays so, nobody knows whether it was."""
    times: int = 1
    """How often it was sent by now."""


CLAIM = "claim"
_sent = msgspec.json.Decoder(Sent)


class Known(NamedTuple):
    """What is known about dead letters that were sent back."""

    sent: dict[int, Sent]
    """When each dead letter was sent back last, by its offset."""
    end: int
    """The next offset of the topic."""


def sent_before(log: Log, app: str, letters: str, offsets: Collection[int]) -> Known:
    """Return when each of these dead letters was sent back last. `letters` is the id of their topic."""
    info = find_topic(log, names.redrives(app))
    if info is None or not offsets:
        return Known({}, 0)
    end = _end(log, app)
    found: dict[int, Sent] = {}
    wanted = set(offsets)
    for sent, _ in _rows(log, app, letters, info.starts[0], end):
        if sent.offset in wanted:
            _keep_newest(found, sent)
    return Known(found, end)


def record_sent(log: Log, app: str, sent: Iterable[Sent], claim: bytes = b"") -> None:
    """Record that dead letters are sent, or were. A claim identifies the call that is about to send them."""
    headers = ((CLAIM, claim),) if claim else ()
    rows = [Row(b"%d" % one.offset, msgspec.json.encode(one), one.at, headers) for one in sent]
    if not rows:
        return
    info = ensure_topic(log, names.redrives(app), table=True, partitions=None, default=1, config={})
    log.append(TopicPartition(info.name, 0), to_batch(rows))


def claimed_by_others(log: Log, app: str, letters: str, since: int, claim: bytes) -> dict[int, Sent]:
    """Return the dead letters of which the first record since this offset is not that of the claim, as the
    others recorded them. Their records are written once more: the claim's own record is behind them, and
    would be the one that compaction keeps."""
    first: dict[int, bytes] = {}
    others: dict[int, Sent] = {}
    for sent, of_call in _rows(log, app, letters, since, _end(log, app)):
        first.setdefault(sent.offset, of_call)
        if of_call != claim:
            _keep_newest(others, sent)
    lost = {offset: others[offset] for offset, of_call in first.items() if of_call != claim}
    record_sent(log, app, lost.values())
    return lost


def _keep_newest(known: dict[int, Sent], sent: Sent) -> None:
    """Keep a record unless it is that of a call which came too late: the letter is being sent, or was."""
    earlier = known.get(sent.offset)
    if earlier is None or sent.to_offset is not None or sent.times > earlier.times:
        known[sent.offset] = sent


def _end(log: Log, app: str) -> int:
    partition = TopicPartition(names.redrives(app), 0)
    return int(log.ends([partition])[partition])


def _rows(log: Log, app: str, letters: str, start: int, end: int) -> Iterator[tuple[Sent, bytes]]:
    """Yield the records of one dead-letter topic, each with its claim."""
    for batch in read_between(log, TopicPartition(names.redrives(app), 0), start, end):
        for row in rows_of(batch):
            if row.value is not None and (sent := _sent.decode(row.value)).letters == letters:
                yield sent, dict(row.headers).get(CLAIM) or b""
