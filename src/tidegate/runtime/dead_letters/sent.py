"""Which dead letters were sent back: when, by whom, why, and where to.

The topic `<app>-redrives` has a record for each dead letter that was sent back, by its offset; it is
compacted. The record is written before the letter is sent, and again afterwards, with its offset in the
source topic. So a letter that may have been sent before a crash counts as sent. Records name the dead-letter
topic by its id, since offsets count from 0 again after a reset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

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


_sent = msgspec.json.Decoder(Sent)


def sent_before(log: Log, app: str, letters: str, offsets: Collection[int]) -> dict[int, Sent]:
    """Return when each of these dead letters was sent back last. `letters` is the id of their topic."""
    topic, wanted = names.redrives(app), set(offsets)
    info = find_topic(log, topic)
    if info is None or not wanted:
        return {}
    partition = TopicPartition(topic, 0)
    found: dict[int, Sent] = {}
    for batch in read_between(log, partition, info.starts[0], int(log.ends([partition])[partition])):
        for row in rows_of(batch):
            if (row.key or b"").isdigit() and int(row.key or b"") in wanted and row.value is not None:
                one = _sent.decode(row.value)
                if one.letters == letters:
                    found[one.offset] = one
    return found


def record_sent(log: Log, app: str, sent: Iterable[Sent]) -> None:
    """Record that dead letters are sent, or were."""
    rows = [Row(b"%d" % one.offset, msgspec.json.encode(one), one.at) for one in sent]
    if not rows:
        return
    info = ensure_topic(log, names.redrives(app), table=True, partitions=None, default=1, config={})
    log.append(TopicPartition(info.name, 0), to_batch(rows))
