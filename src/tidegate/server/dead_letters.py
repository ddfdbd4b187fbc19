"""Dead letters: grouped by what went wrong, and sent back to the topic that they came from.

A record that is sent back has the key, value, timestamp and own headers of the dead letter, and headers that
record where it came from, who sent it, and why:

    tidegate.redrive.from     topic/partition/offset of the dead letter
    tidegate.redrive.by       the name of the token
    tidegate.redrive.reason   as the caller gave it

The dead letter itself stays. One that failed in an internal topic, behind a gate or a `group_by`, is refused:
its key and value are not those of the record in the source topic.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.errors import LogError, TidegateError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.runtime.output.on_error import CODE, CODE_LOCATION, INTERNAL_POSITION, MESSAGE, POSITION
from tidegate.server.errors import RequestError
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import NodeKind
from tidegate.types import TopicPartition

MOST_READ = 10_000
OFFSETS_SHOWN = 20
MOST_OFFSETS = 1_000
REDRIVE = f"{HEADER_PREFIX}redrive."


class DeadLetterGroup(msgspec.Struct, frozen=True):
    """Dead letters with the same error at the same line."""

    code: str
    place: str
    """The line of the user's function; empty if it was not one."""
    count: int
    first: int
    """The timestamps of the first and the last record, in milliseconds."""
    last: int
    message: str
    """Of the newest one."""
    sources: list[str]
    """The topics that they came from."""
    offsets: list[int]
    """Of the newest ones, in the dead-letter topic."""


class DeadLetterReport(msgspec.Struct, frozen=True):
    """The dead letters of an app."""

    app: str
    topic: str
    records: int
    at_least: bool
    """Whether there are older ones that were not read."""
    groups: list[DeadLetterGroup]
    """The largest first."""


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


def grouped_dead_letters(log: Log, app: str, offsets: int = OFFSETS_SHOWN) -> DeadLetterReport:
    """Read the newest dead letters of an app and group them. A group names so many offsets."""
    topic = names.dead_letters(app)
    info = find_topic(log, topic)
    if info is None:
        return DeadLetterReport(app, topic, 0, at_least=False, groups=[])
    partition = TopicPartition(topic, 0)
    end = int(log.ends([partition])[partition])
    start = max(info.starts[0], end - MOST_READ)
    groups: dict[tuple[str, str], DeadLetterGroup] = {}
    for batch in read_between(log, partition, start, end):
        for row in rows_of(batch):
            headers = _texts(row)
            name = headers.get(CODE, ""), headers.get(CODE_LOCATION, "")
            groups[name] = _added(groups.get(name), name, row, headers, offsets)
    ordered = sorted(groups.values(), key=lambda one: (-one.count, one.code, one.place))
    found = sum(one.count for one in ordered)
    return DeadLetterReport(app, topic, found, start > info.starts[0], ordered)


def redrive(
    log: Log, manifest: Manifest, offsets: list[int], by: str, reason: str
) -> tuple[list[Redriven], list[NotRedriven]]:
    """Send dead letters back, in the order of their offsets. Each is sent or refused on its own; after a
    failure of the log the rest is refused."""
    partition = TopicPartition(names.dead_letters(manifest.app), 0)
    done: list[Redriven] = []
    refused: list[NotRedriven] = []
    failed: TidegateError | None = None
    for offset in sorted(set(offsets)):
        try:
            if failed is not None:
                raise failed
            done.append(_redrive(log, manifest, partition, offset, by, reason))
        except TidegateError as error:
            refused.append(NotRedriven(offset, error.code, error.message))
            if error.retryable:
                failed = error
    return done, refused


def _redrive(
    log: Log, manifest: Manifest, letters: TopicPartition, offset: int, by: str, reason: str
) -> Redriven:
    row = _read(log, letters, offset)
    target = _source(manifest, row, offset)
    info = log.describe(target.topic)
    if target.partition >= info.partitions:
        raise _not_redrivable(offset, f"{target} is no partition of its topic any more")
    own = [pair for pair in row.headers if not pair[0].startswith(HEADER_PREFIX)]
    trace = {"from": f"{letters.topic}/{letters.partition}/{offset}", "by": by, "reason": reason}
    headers = (*own, *((REDRIVE + name, text.encode("utf-8", "replace")) for name, text in trace.items()))
    sent = log.append(target, to_batch([Row(row.key, row.value, row.timestamp, headers)]))
    return Redriven(offset, target.topic, target.partition, int(sent))


def _read(log: Log, letters: TopicPartition, offset: int) -> ReadRow:
    starts, end = log.describe(letters.topic).starts, int(log.ends([letters])[letters])
    if starts[0] <= offset < end:
        for batch in read_between(log, letters, offset, offset + 1):
            for row in rows_of(batch):
                return row
    raise LogError("no-such-record", f"{letters} has no record at offset {offset}", "look at the list again")


def _source(manifest: Manifest, row: ReadRow, offset: int) -> TopicPartition:
    """The partition of the user's topic from which a dead letter came."""
    headers = _texts(row)
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


def _not_redrivable(offset: int, why: str) -> RequestError:
    return RequestError(
        "not-redrivable",
        f"dead letter {offset} cannot be sent back: {why}",
        "send a corrected record to the source topic",
    )


def _added(
    group: DeadLetterGroup | None,
    name: tuple[str, str],
    row: ReadRow,
    headers: dict[str, str],
    offsets: int,
) -> DeadLetterGroup:
    """A group with one more dead letter, which is newer than all before."""
    source = headers.get(POSITION, "").rsplit("/", 2)[0]
    sources = [] if group is None else group.sources
    return DeadLetterGroup(
        code=name[0],
        place=name[1],
        count=1 if group is None else group.count + 1,
        first=row.timestamp if group is None else min(group.first, row.timestamp),
        last=row.timestamp if group is None else max(group.last, row.timestamp),
        message=headers.get(MESSAGE, ""),
        sources=sources if not source or source in sources else [*sources, source],
        offsets=[*([] if group is None else group.offsets), row.offset][-offsets:],
    )


def _texts(row: ReadRow) -> dict[str, str]:
    """The headers that describe the error. A record may have had headers of these names: the last count."""
    found: dict[str, Any] = {
        name: value.decode("utf-8", "replace")
        for name, value in row.headers
        if value is not None and name.startswith(f"{HEADER_PREFIX}error.")
    }
    return found
