"""Send dead letters back to the topic that they came from.

A record that is sent back has the key, value, timestamp and own headers of the dead letter, and headers that
record where it came from, who sent it, and why:

    tidegate.redrive.from     topic/partition/offset of the dead letter
    tidegate.redrive.by       the name of the token, or of the user of the command line
    tidegate.redrive.reason   as the caller gave it

The dead letter itself stays, and `sent` keeps that it was sent. One that was sent before is refused, unless
the caller asks to send it again. One that failed in an internal topic, behind a gate or a `group_by`, is
refused: its key and value are not those of the record in the source topic.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import msgspec

from tidegate.errors import LogError, TidegateError
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.runtime.dead_letters.groups import error_texts
from tidegate.runtime.dead_letters.sent import Sent, record_sent, sent_before, sent_by_others
from tidegate.runtime.output.on_error import INTERNAL_POSITION, POSITION
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import NodeKind
from tidegate.types import TopicPartition

REDRIVE = f"{HEADER_PREFIX}redrive."


class Redriven(msgspec.Struct, frozen=True):
    """A dead letter that was sent back."""

    offset: int
    topic: str
    partition: int
    to_offset: int


class NotRedriven(msgspec.Struct, frozen=True):
    """A dead letter that was not sent back, and why."""

    offset: int
    code: str
    message: str


def redrive(
    log: Log, manifest: Manifest, offsets: list[int], by: str, reason: str, *, now: int, again: bool = False
) -> tuple[list[Redriven], list[NotRedriven]]:
    """Send dead letters back, in the order of their offsets: 1 find what can be sent; 2 record that it is
    sent, and leave out what another call recorded first; 3 send it; 4 record where to. Each letter is sent
    or refused on its own; after a failure of the log the rest is refused. Those that were sent before are
    refused with `already-redriven`, unless `again`."""
    partition = TopicPartition(names.dead_letters(manifest.app), 0)
    uid = log.describe(partition.topic).uid
    before = sent_before(log, manifest.app, uid, offsets)
    found: list[tuple[Sent, ReadRow]] = []
    refused: list[NotRedriven] = []
    for offset in sorted(set(offsets)):
        try:
            row = _read(log, partition, offset)
            target = _target(log, manifest, row, offset)
            earlier = before.sent.get(offset)
            if earlier is not None and not again:
                raise _already_sent(earlier)
            times = 1 if earlier is None else earlier.times + 1
            sent = Sent(uid, offset, now, by, reason, target.topic, target.partition, times=times)
            found.append((sent, row))
        except TidegateError as error:
            refused.append(NotRedriven(offset, error.code, error.message))
    reach("redrive.2")
    call = uuid.uuid4().bytes
    record_sent(log, manifest.app, (one for one, _ in found), call)
    if found and not again:
        others = sent_by_others(log, manifest.app, uid, before.end, call)
        for other in (others[sent.offset] for sent, _ in found if sent.offset in others):
            known = _already_sent(other)
            refused.append(NotRedriven(other.offset, known.code, known.message))
        found = [(sent, row) for sent, row in found if sent.offset not in others]
    done, failed = _send_all(log, manifest.app, partition, found)
    return done, sorted([*refused, *failed], key=lambda one: one.offset)


def _send_all(
    log: Log, app: str, letters: TopicPartition, found: list[tuple[Sent, ReadRow]]
) -> tuple[list[Redriven], list[NotRedriven]]:
    """Steps 3 and 4."""
    done: list[Sent] = []
    refused: list[NotRedriven] = []
    failed: TidegateError | None = None
    for sent, row in found:
        try:
            if failed is not None:
                raise failed
            reach("redrive.3")
            done.append(msgspec.structs.replace(sent, to_offset=_send(log, letters, sent, row)))
        except TidegateError as error:
            refused.append(NotRedriven(sent.offset, error.code, error.message))
            if error.retryable:
                failed = error
    reach("redrive.4")
    record_sent(log, app, done)
    return [Redriven(one.offset, one.topic, one.partition, one.to_offset or 0) for one in done], refused


def _send(log: Log, letters: TopicPartition, sent: Sent, row: ReadRow) -> int:
    own = [pair for pair in row.headers if not pair[0].startswith(HEADER_PREFIX)]
    trace = {
        "from": f"{letters.topic}/{letters.partition}/{sent.offset}",
        "by": sent.by,
        "reason": sent.reason,
    }
    headers = (*own, *((REDRIVE + name, text.encode("utf-8", "replace")) for name, text in trace.items()))
    target = TopicPartition(sent.topic, sent.partition)
    return int(log.append(target, to_batch([Row(row.key, row.value, row.timestamp, headers)])))


def _target(log: Log, manifest: Manifest, row: ReadRow, offset: int) -> TopicPartition:
    """The partition to which a dead letter is sent back."""
    target = _source(manifest, row, offset)
    if target.partition >= log.describe(target.topic).partitions:
        raise _not_redrivable(offset, f"{target} is no partition of its topic any more")
    return target


def _already_sent(sent: Sent) -> LogError:
    where = f"{sent.topic}/{sent.partition}" + ("" if sent.to_offset is None else f"/{sent.to_offset}")
    who, at = f" by {sent.by}" if sent.by else "", datetime.fromtimestamp(sent.at / 1000, UTC)
    return LogError(
        "already-redriven",
        f"dead letter {sent.offset} was sent back to {where}{who} at {at:%Y-%m-%d %H:%M:%S} UTC",
        "to send it once more: --again, over HTTP again=true",
    )


def _read(log: Log, letters: TopicPartition, offset: int) -> ReadRow:
    starts, end = log.describe(letters.topic).starts, int(log.ends([letters])[letters])
    if starts[0] <= offset < end:
        for batch in read_between(log, letters, offset, offset + 1):
            for row in rows_of(batch):
                return row
    raise LogError("no-such-record", f"{letters} has no record at offset {offset}", "look at the list again")


def _source(manifest: Manifest, row: ReadRow, offset: int) -> TopicPartition:
    """The partition of the user's topic from which a dead letter came."""
    headers = error_texts(row)
    parts = headers.get(POSITION, "").rsplit("/", 2)
    if len(parts) != 3 or not parts[1].isdecimal():
        raise _not_redrivable(offset, "it does not name the topic that it came from")
    if INTERNAL_POSITION in headers:
        raise _not_redrivable(offset, f"it failed in an internal topic ({headers[INTERNAL_POSITION]})")
    kinds = (NodeKind.SOURCE, NodeKind.TABLE)
    sources = {node.topic for node in manifest.nodes if node.topic and node.kind in kinds}
    if parts[0] not in sources:
        raise _not_redrivable(offset, f"app {manifest.app!r} does not read {parts[0]!r} as a source")
    return TopicPartition(parts[0], int(parts[1]))


def _not_redrivable(offset: int, why: str) -> LogError:
    return LogError(
        "not-redrivable",
        f"dead letter {offset} cannot be sent back: {why}",
        "send a corrected record to the source topic",
    )
