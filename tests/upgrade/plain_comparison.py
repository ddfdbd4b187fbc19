"""A comparison with dicts, row by row: slow, in memory, and easy to follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import Headers, ReadRow, rows_of
from tidegate.runtime.output.origin import OWNER, origin_of
from tidegate.runtime.output.staged_rows import split_key
from tidegate.types import TopicPartition


class Different(NamedTuple):
    """A row that differs, and the record that is published for it."""

    before: bytes | None
    after: bytes | None
    timestamp: int
    headers: Headers


@dataclass
class PlainComparison:
    rows: dict[bytes, Different] = field(default_factory=dict)
    equal: int = 0
    foreign: int = 0


def compare(log: Log, live: str, staged: str, owner: bytes, number: int) -> PlainComparison:
    found = PlainComparison()
    before = {row.key: row for row in records(log, live, number) if row.key is not None}
    after: dict[bytes, ReadRow] = {}
    for row in records(log, staged, number):
        assert row.key is not None
        key = split_key(row.key)[1]
        if key not in after or order(row) >= order(after[key]):
            after[key] = row
    for key in {*before, *after}:
        old, new = before.get(key), after.get(key)
        was, becomes = old.value if old else None, new.value if new else None
        if old is not None and (OWNER, owner) not in old.headers:
            found.foreign += was is not None or becomes is not None
        elif was == becomes:
            found.equal += becomes is not None
        elif becomes is None:
            assert old is not None
            found.rows[key] = Different(was, None, old.timestamp, ((OWNER, owner),))
        else:
            assert new is not None
            own = tuple(pair for pair in new.headers if not pair[0].startswith("tidegate."))
            headers = (*own, (OWNER, owner))
            found.rows[key] = Different(was, becomes, new.timestamp, headers)
    return found


def records(log: Log, topic: str, number: int) -> list[ReadRow]:
    partition = TopicPartition(topic, number)
    end = log.ends([partition])[partition]
    return [row for batch in read_between(log, partition, 0, end) for row in rows_of(batch)]


def order(row: ReadRow) -> tuple[int, str, int]:
    origin = origin_of(row.headers)
    return (origin.time, origin.task, origin.sequence) if origin else (row.timestamp, "", row.offset)
