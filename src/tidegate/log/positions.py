"""The position of each stream task, as records of the topic `<app-id>-positions`.

A position is written in the same transaction as the records that it covers, so it is never ahead of the log
nor behind it. It carries exact changelog offsets: the current end of a changelog may be before or after what
the task committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

FORMAT = 1
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


class TaskId(msgspec.Struct, frozen=True, order=True):
    """A stream task of one generation of an app: the key of its position."""

    component: str
    generation: int
    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.component}.g{self.generation}/{self.subtopology}_{self.partition}"


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a task has come; every offset is that of the next record."""

    sources: dict[str, dict[int, int]] = {}
    """Next offset to process, by topic and partition."""
    stream_times: dict[str, dict[int, int]] = {}
    """Highest timestamp processed, by topic and partition."""
    changelogs: dict[str, int] = {}
    """Next offset of each store's changelog partition, by store."""
    progress: dict[str, str] = {}
    """Additional state of nodes that is not in a store, by node."""
    format: int = FORMAT


def positions_topic(app: str) -> TopicSpec:
    """Return the spec of an app's positions topic."""
    return TopicSpec(names.positions(app), 1, CONFIG)


def position_row(task: TaskId, position: Position, timestamp: int) -> Row:
    """Encode a position as a record."""
    return Row(msgspec.json.encode(task), msgspec.json.encode(position), timestamp)


def read_positions(log: Log, app: str, start: int = 0) -> dict[TaskId, Position]:
    """Return the newest position of every task. Open your writer first, as `read_to_end` explains.

    `start` may be any offset at or before the newest position of every task.
    """
    partition = TopicPartition(names.positions(app), 0)
    first = max(start, log.describe(partition.topic).starts[0])
    newest: dict[TaskId, Position] = {}
    for fetched in read_to_end(log, {partition: Offset(first)}):
        keys = fetched.batch.column(2).to_pylist()
        values = fetched.batch.column(3).to_pylist()
        for key, value in zip(keys, values, strict=True):
            fold_position(newest, key, value)
    return newest


def check_positions(app: str, known: Mapping[TaskId, Position], tasks: Iterable[TaskId]) -> None:
    """Raise LogError `positions-missing` unless each of the tasks has a position."""
    missing = sorted(task for task in tasks if task not in known)
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise LogError(
            "positions-missing",
            f"app {app!r} has a plan but no position for task {missing[0]}{more}. The topic "
            f"{names.positions(app)!r} was deleted or truncated",
            f"restore the topic, or start over with: tidegate reset {app}",
        )


_task, _position = msgspec.json.Decoder(TaskId), msgspec.json.Decoder(Position)


def fold_position(newest: dict[TaskId, Position], key: bytes, value: bytes | None) -> None:
    """Apply one record of the topic to `newest`: it replaces the task's position, a tombstone removes it."""
    try:
        task = _task.decode(key)
        position = None if value is None else _position.decode(value)
    except msgspec.DecodeError as error:
        raise LogError(
            "bad-position",
            f"a record of the positions topic cannot be decoded: {error}",
            "only tidegate may write to this topic; use the version of tidegate that wrote the record",
        ) from error
    if position is None:
        newest.pop(task, None)
    elif position.format != FORMAT:
        raise LogError(
            "unknown-format",
            f"the position of {task} has format {position.format}; this version of tidegate reads {FORMAT}",
            "use the version of tidegate that wrote it, or a newer one",
        )
    else:
        newest[task] = position
