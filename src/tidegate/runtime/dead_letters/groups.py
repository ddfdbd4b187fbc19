"""The newest dead letters of an app, grouped by what went wrong: the error and the line."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, rows_of
from tidegate.runtime.dead_letters.sent import Sent, sent_before
from tidegate.runtime.output.on_error import CODE, CODE_LOCATION, MESSAGE, POSITION
from tidegate.types import TopicPartition

MOST_READ = 10_000
OFFSETS_SHOWN = 20
MOST_OFFSETS = 1_000


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
    sent: list[Sent] = []
    """Those of them that were sent back."""


class DeadLetterReport(msgspec.Struct, frozen=True):
    """The dead letters of an app."""

    app: str
    topic: str
    records: int
    at_least: bool
    """Whether there are older ones that were not read."""
    groups: list[DeadLetterGroup]
    """The largest first."""


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
            headers = error_texts(row)
            name = headers.get(CODE, ""), headers.get(CODE_LOCATION, "")
            groups[name] = _added(groups.get(name), name, row, headers, offsets)
    named = [offset for one in groups.values() for offset in one.offsets]
    before = sent_before(log, app, info.uid, named).sent
    for name, one in groups.items():
        sent = [before[offset] for offset in one.offsets if offset in before]
        groups[name] = msgspec.structs.replace(one, sent=sent)
    ordered = sorted(groups.values(), key=lambda one: (-one.count, one.code, one.place))
    found = sum(one.count for one in ordered)
    return DeadLetterReport(app, topic, found, start > info.starts[0], ordered)


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


def error_texts(row: ReadRow) -> dict[str, str]:
    """The headers that describe the error. A record may have had headers of these names: the last count."""
    found: dict[str, Any] = {
        name: value.decode("utf-8", "replace")
        for name, value in row.headers
        if value is not None and name.startswith(f"{HEADER_PREFIX}error.")
    }
    return found
