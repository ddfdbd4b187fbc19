"""The small protocol that every log speaks: `sqlite` here, `kafka` in production.

    log.create(spec)              log.reader(positions) -> Reader    log.writer(id) -> Writer
    log.describe(name)            log.ends(partitions)               log.append(partition, batch)
    log.names()  log.delete(name) log.offset_at(partition, time)     log.purge(partition, before)

A reader sees committed records only, in offset order; offsets rise but need not be dense. A writer
with the same id as an older one fences it for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidegate.log.location import LogLocation
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of one partition, in order. `next` is where the reader stands behind them: it also steps
    over offsets that hold nothing any more, so a batch may be empty and still move the position."""

    partition: TopicPartition
    batch: pa.RecordBatch
    next: Offset


class Reader(Protocol):
    """Reads committed records of some partitions from given positions on. For one thread."""

    def poll(self, timeout: float) -> list[Fetched]:
        """What is there, at most some MiB; waits up to `timeout` seconds if that is nothing.

        Raises LogError `offset-out-of-range` where retention or a purge passed the position.
        """
        ...

    def position(self, partition: TopicPartition) -> Offset:
        """The offset that the next record fetched will have at least."""
        ...

    def at_end(self, partition: TopicPartition) -> bool:
        """Whether the last poll saw the committed end and nothing is left before it."""
        ...

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Go on from another offset."""
        ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Give nothing of these, until it is called again with others or none. A partition that is paused is
        not known to be at its end."""
        ...

    def close(self) -> None: ...


class Writer(Protocol):
    """One transaction after the other under one id. For one thread.

    The first append opens a transaction. After FencedError, any error in commit, or a failure of the log
    in append, the writer is spent: open a new one and read the positions to learn what was committed. A
    record that is refused by name does not spend it.
    """

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        """Add records (APPEND_SCHEMA). A record that the topic cannot take raises LogError
        (`record-too-large`, `bad-timestamp`, `null-key`) and leaves the transaction as it was."""
        ...

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The next offset of each partition as it will be once this transaction is committed with what
        was appended so far. If that cannot be kept, commit fails and nothing of it is committed."""
        ...

    def commit(self) -> None:
        """Everything appended becomes visible at once, in all partitions; durable on return."""
        ...

    def abort(self) -> None:
        """Nothing appended since the last commit will ever be seen."""
        ...

    def close(self) -> None:
        """Abort what is open and let go."""
        ...


class Log(Protocol):
    """Topics, readers and writers. Safe to share between threads; readers and writers are not."""

    @property
    def id(self) -> str:
        """Names this log for good: a store that was built from another log shows by it."""
        ...

    @property
    def place(self) -> LogLocation:
        """How another process opens it."""
        ...

    def check(self) -> None:
        """Raise LogError `log-unreachable` if the log does not answer soon, `commit-unknown` if such a commit
        spent it: then it must be opened again."""
        ...

    def create(self, spec: TopicSpec) -> TopicInfo:
        """Create a topic, or find it as asked for: same partition count and cleanup policy."""
        ...

    def describe(self, name: str) -> TopicInfo: ...

    def names(self) -> list[str]: ...

    def delete(self, name: str) -> None: ...

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        """Next offset of each partition: up to where a committed reader can get, or with
        `committed=False` behind everything that open transactions have taken too."""
        ...

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        """The first offset whose record has at least this timestamp, else the end. It may be lower where a
        log keeps marks of transactions: whoever reads from there skips what is earlier."""
        ...

    def reader(self, positions: Mapping[TopicPartition, Offset]) -> Reader: ...

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> Writer:
        """Open the writer of this id and fence whoever held it before. `open_seconds` is for a transaction
        that takes long to append: a log that ends what is open for longer gives it at least that much more.
        """
        ...

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        """Append outside of the caller's transactions, all records or none; durable on return.

        The offset of the last record: those of others may stand between it and the first. LogError
        `commit-unknown` if the log did not confirm it, so that all may be there or none.
        """
        ...

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        """Drop the records below an offset."""
        ...

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        """Show others where an app stands, by whatever means the log has for that. Nothing depends on it."""
        ...

    def staging(self) -> Log:
        """Where recalculation writes, so that it does not stand in the way of live commits."""
        ...

    def close(self) -> None: ...
