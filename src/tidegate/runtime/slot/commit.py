"""The commit of a slot: all its tasks in one transaction of the log, then their stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from tidegate.clock import Clock
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position, TaskId, position_row
from tidegate.log.protocol import Fetched, Log, Writer
from tidegate.log.records import to_batch
from tidegate.runtime.output.origin import without_times
from tidegate.runtime.slot.hand_over import with_offsets
from tidegate.state.manager import StateManager
from tidegate.types import TopicPartition


class Committable(Protocol):
    """The part of a stream task that a commit uses."""

    @property
    def id(self) -> TaskId: ...

    @property
    def state(self) -> StateManager: ...

    def send_time(self) -> None:
        """Called when a commit begins: add time-only records for tasks behind internal topics, if they need
        any."""
        ...

    def moved(self) -> bool:
        """Return whether anything was processed since the last commit."""
        ...

    def outputs(self) -> Iterable[tuple[TopicPartition, pa.RecordBatch]]:
        """Return the records to write, in order; those of internal topics may have their times with them."""
        ...

    def position(self, changelogs: dict[str, int]) -> Position:
        """Return the task's position, with these changelog offsets."""
        ...

    def committed(self, position: Position) -> None:
        """Called when the position is committed in the log: clear the outputs."""
        ...


def commit(
    app: str,
    log: Log,
    writer: Writer,
    tasks: Sequence[Committable],
    clock: Clock,
    read_here: Collection[TopicPartition] = (),
) -> list[Fetched]:
    """Commit what the tasks of a slot did. Returns the records that were written to the partitions
    `read_here`, as far as their offsets are known.

    1 stop taking records (the caller has: it calls this between two records); 2 begin the log transaction
    and append outputs; 3 append changelogs, flush, learn the next offset of each; 4 append the positions with
    them; 5 commit the log transaction; 6 move the changes into each task's memtables; 7 every few seconds
    write the memtables to LMDB and commit them with the position; 8 hand records of internal topics over in
    memory to the tasks of this slot that read them (the caller does, with what this returns).

    The log is the truth: the store may lag it, never lead. After any error every task of the slot must be
    dropped and opened again, whatever step it came from: a commit that failed may still count.
    """
    reach("commit.1")
    for task in tasks:
        task.state.expire()
        task.send_time()
    moved = [task for task in tasks if task.moved() or task.state.changed()]
    written = _commit_log(app, writer, moved, clock, read_here) if moved else []
    for task in tasks:
        reach("commit.7")
        task.state.persist(log)
    reach("commit.8")
    return written


def _commit_log(
    app: str,
    writer: Writer,
    moved: Sequence[Committable],
    clock: Clock,
    read_here: Collection[TopicPartition],
) -> list[Fetched]:
    reach("commit.2")
    kept: list[tuple[TopicPartition, pa.RecordBatch]] = []
    for task in moved:
        for partition, batch in task.outputs():
            writer.append(partition, without_times(batch))
            if partition in read_here:
                kept.append((partition, batch))
    reach("commit.3")
    changelogs = []
    for task in moved:
        for partition, batch in task.state.change_records().items():
            writer.append(partition, batch)
            changelogs.append(partition)
    flushed = writer.flush(changelogs)
    reach("commit.4")
    now = clock.now()
    positions = [task.position(task.state.next_offsets(flushed)) for task in moved]
    rows = [position_row(task.id, position, now) for task, position in zip(moved, positions, strict=True)]
    writer.append(TopicPartition(names.positions(app), 0), to_batch(rows))
    reach("commit.5")
    first = writer.commit()
    for task, position in zip(moved, positions, strict=True):
        reach("commit.6")
        task.state.apply(position, now)
        task.committed(position)
    return list(with_offsets(kept, first))
