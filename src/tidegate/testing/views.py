"""What a test compares: stores with their changelogs, and all results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.log.protocol import Log
from tidegate.log.reads import fold, read_between
from tidegate.log.records import rows_of
from tidegate.record import Record
from tidegate.runtime.output.time_only import is_time_only
from tidegate.runtime.task.task import StreamTask
from tidegate.state.builder import StoreBuilder
from tidegate.state.cached import CachedStore
from tidegate.state.memory import MemoryStore
from tidegate.state.protocol import QuietListener
from tidegate.types import TopicPartition

Rows = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class StoreView:
    """One store of all tasks, and the fold of its changelog, partition by partition.

    Rows are `{key: value}`; of a window store `{(key, start): value}`, of a session store
    `{(key, start, end): value}`.
    """

    name: str
    partitions: Mapping[int, Rows]
    changelogs: Mapping[int, Rows]

    @property
    def contents(self) -> Rows:
        """The rows of all tasks."""
        return _joined(self.partitions.values())

    @property
    def changelog(self) -> Rows:
        """The rows that the changelog holds; none if the store has no changelog."""
        return _joined(self.changelogs.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results of a run, by partition: topics as (key, value) in order, and stores."""

    topics: Mapping[str, list[list[tuple[Any, Any]]]]
    stores: Mapping[str, Mapping[int, Rows]]


class Discards(QuietListener):
    """Records the stores that a restore discarded."""

    def __init__(self) -> None:
        self.rebuilt: list[str] = []

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        self.rebuilt.append(f"{store}, partition {partition}: {reason}")

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None:
        if not kept:
            self.rebuilt.append(f"{store}, partition {partition}: it has no changelog and missed a commit")


def store_view(name: str, tasks: Iterable[StreamTask], log: Log) -> StoreView:
    """Return the store of this name, as the running tasks have it and as the log has it."""
    partitions: dict[int, Rows] = {}
    changelogs: dict[int, Rows] = {}
    for task in tasks:
        builder = next((one for one in task.state.builders() if one.name == name), None)
        if builder is None:
            continue
        partitions[task.partition] = _rows(builder, task.state.store(builder))
        logged = task.state.changelogs().get(name)
        if logged is not None:
            folded = MemoryStore(builder.layout.suffix)
            found = fold(log, logged).items()
            folded.apply((key, builder.layout.restored(value, at)) for key, (value, at) in found)
            typed = builder.typed(builder, CachedStore(folded, builder.layout.suffix), task.state.store_time)
            changelogs[task.partition] = _rows(builder, typed)
    return StoreView(name, dict(sorted(partitions.items())), dict(sorted(changelogs.items())))


def _rows(builder: StoreBuilder[Any], typed: Any) -> Rows:
    if builder.kind == "window":
        return {(key, start): value for key, start, value in typed.all()}
    if builder.kind == "session":
        return {(key, session.start, session.end): session.value for key, session in typed.all()}
    return dict(typed.all())


def _joined(parts: Iterable[Rows]) -> Rows:
    rows: Rows = {}
    for part in parts:
        twice = rows.keys() & part.keys()
        if twice:
            raise AssertionError(f"more than one task has the row of {next(iter(twice))!r}")
        rows |= part
    return rows


def all_records(log: Log, topic: str) -> list[Record[bytes | None, bytes | None]]:
    """Return all records of a topic as bytes, partition by partition."""
    partitions = [TopicPartition(topic, number) for number in range(log.describe(topic).partitions)]
    ends = log.ends(partitions)
    return [
        Record(row.key, row.value, row.timestamp, row.headers, *partition, row.offset)
        for partition in partitions
        for batch in read_between(log, partition, 0, ends[partition])
        for row in rows_of(batch)
    ]


def seen_records(log: Log, internal: str) -> list[list[tuple[Any, Any]]]:
    """The records of an internal topic that nodes see, by partition: the number of time-only records depends
    on clocks and crashes."""
    found: list[list[tuple[Any, Any]]] = [[] for _ in range(log.describe(internal).partitions)]
    for record in all_records(log, internal):
        if not is_time_only(record.headers):
            found[record.partition].append((record.key, record.value))
    return found
