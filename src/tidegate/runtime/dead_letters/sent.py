"""Which dead letters were sent back: when, by whom, why, and where to.

The topic `<app>-redrives` has a record for each dead letter that was sent back, by its offset; it is
compacted. The record is written before the dead letter is sent, and again afterwards, with its offset in the
source topic. So one that may have been sent before a crash counts as sent. If several calls want to send the
same one at the same time, the call whose record comes first sends it. Records name the dead-letter topic by
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

    topic_uid: str
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


CALL = "call"
"""The header with the id of the call that is about to send a dead letter."""
_sent = msgspec.json.Decoder(Sent)


class SentBefore(NamedTuple):
    """The dead letters that were sent back, up to the end of the topic."""

    sent: dict[int, Sent]
    """When each dead letter was sent back last, by its offset."""
    end: int
    """The next offset of the topic."""


def sent_before(log: Log, app: str, topic_uid: str, offsets: Collection[int]) -> SentBefore:
    """Return when each of these dead letters was sent back last. `topic_uid` is the id of their topic."""
    info = find_topic(log, names.redrives(app))
    if info is None or not offsets:
        return SentBefore({}, 0)
    end = _end(log, app)
    found: dict[int, Sent] = {}
    wanted = set(offsets)
    for sent, _ in _rows(log, app, topic_uid, info.starts[0], end):
        if sent.offset in wanted:
            _keep_newest(found, sent)
    return SentBefore(found, end)


def record_sent(log: Log, app: str, sent: Iterable[Sent], call: bytes = b"") -> None:
    """Record that dead letters are about to be sent by this call, or, without a call, that they were sent."""
    headers = ((CALL, call),) if call else ()
    rows = [Row(b"%d" % one.offset, msgspec.json.encode(one), one.at, headers) for one in sent]
    if not rows:
        return
    info = ensure_topic(log, names.redrives(app), table=True, partitions=None, default=1, config={})
    log.append(TopicPartition(info.name, 0), to_batch(rows))


def sent_by_others(log: Log, app: str, topic_uid: str, since: int, call: bytes) -> dict[int, Sent]:
    """Return the dead letters that another call recorded first, looking at the records from `since` on.

    The other call's records are written once more: compaction keeps the last record of a dead letter, and
    that would be the one of this call, which does not send it."""
    first: dict[int, bytes] = {}
    others: dict[int, Sent] = {}
    for sent, sender in _rows(log, app, topic_uid, since, _end(log, app)):
        first.setdefault(sent.offset, sender)
        if sender != call:
            _keep_newest(others, sent)
    found = {offset: others[offset] for offset, sender in first.items() if sender != call}
    record_sent(log, app, found.values())
    return found


def _keep_newest(known: dict[int, Sent], sent: Sent) -> None:
    """Keep a record, unless it belongs to a call that came too late to send the dead letter."""
    earlier = known.get(sent.offset)
    if earlier is None or sent.to_offset is not None or sent.times > earlier.times:
        known[sent.offset] = sent


def _end(log: Log, app: str) -> int:
    partition = TopicPartition(names.redrives(app), 0)
    return int(log.ends([partition])[partition])


def _rows(log: Log, app: str, topic_uid: str, start: int, end: int) -> Iterator[tuple[Sent, bytes]]:
    """Yield the records of one dead-letter topic, each with the id of the call that is about to send it."""
    for batch in read_between(log, TopicPartition(names.redrives(app), 0), start, end):
        for row in rows_of(batch):
            if row.value is not None and (sent := _sent.decode(row.value)).topic_uid == topic_uid:
                yield sent, dict(row.headers).get(CALL) or b""
