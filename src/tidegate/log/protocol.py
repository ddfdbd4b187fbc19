"""The small protocol that every log implements: `sqlite` for development, `kafka` for production.

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
    """Records of one partition, in order. `next` is the reader's position after them: it also skips
    offsets that no longer hold a record, so an empty batch may still advance the position."""

    partition: TopicPartition
    batch: pa.RecordBatch
    next: Offset


class Reader(Protocol):
    """Reads committed records of some partitions from given positions on. Not thread-safe."""

    def poll(self, timeout: float) -> list[Fetched]:
        """Return the available records, at most some MiB; wait up to `timeout` seconds if there are none.

        Raises LogError `offset-out-of-range` if retention or a purge removed the record at the position.
        """
        ...

    def position(self, partition: TopicPartition) -> Offset:
        """Return the lowest offset that the next fetched record can have."""
        ...

    def at_end(self, partition: TopicPartition) -> bool:
        """Whether the last poll reached the committed end, and nothing is left before it."""
        ...

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Continue from another offset."""
        ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return nothing of these partitions until `pause` is called again with other partitions or none.
        For a paused partition `at_end` is False."""
        ...

    def close(self) -> None: ...


class Writer(Protocol):
    """Writes one transaction after the other under one id. Not thread-safe.

    The first append opens a transaction. After FencedError, any error in commit, or a failure of the log
    in append, the writer is unusable: open a new one and read the positions to learn what was
    committed. A record that the topic refuses does not make the writer unusable.
    """

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        """Add records (APPEND_SCHEMA). A record that the topic cannot take raises LogError
        (`record-too-large`, `bad-timestamp`, `null-key`) and leaves the transaction as it was."""
        ...

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the next offset of each partition as it will be after this transaction commits what was
        appended so far. If the offsets turn out different, commit fails and nothing is committed."""
        ...

    def commit(self) -> dict[TopicPartition, Offset]:
        """Make everything that was appended visible at once, in all partitions; durable on return.

        Returns the first offset of the partitions in which all appended records got consecutive offsets, as
        far as the log knows that; a log that does not returns none.
        """
        ...

    def abort(self) -> None:
        """Discard everything that was appended since the last commit."""
        ...

    def close(self) -> None:
        """Abort the open transaction, if any, and release resources."""
        ...


class Log(Protocol):
    """Topics, readers and writers. Safe to share between threads; readers and writers are not."""

    @property
    def id(self) -> str:
        """A permanent id of this log: a store records it, to notice that it was built from another log."""
        ...

    @property
    def location(self) -> LogLocation:
        """What another process needs to open this log."""
        ...

    def check(self) -> None:
        """Raise LogError `log-unreachable` if the log does not answer soon, or `commit-unknown` if a commit
        of unknown outcome made it unusable: then it must be opened again."""
        ...

    def create(self, spec: TopicSpec) -> TopicInfo:
        """Create a topic, or return it if it exists with the same partition count and cleanup policy."""
        ...

    def describe(self, name: str) -> TopicInfo: ...

    def names(self) -> list[str]: ...

    def delete(self, name: str) -> None: ...

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        """Return the next offset of each partition: as far as a reader of committed records can get, or with
        `committed=False` the offset after the records of open transactions too."""
        ...

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        """Return the first offset whose record has at least this timestamp, else the end. It may be lower in
        a log that keeps transaction markers: a caller skips earlier records that it reads from there."""
        ...

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> Reader:
        """Open a reader. One that is `brief` is closed when it has read up to an end that is there already,
        so that a log need not wait for more records before it reports the end. If it is kept open, it may
        cost the log more than others do."""
        ...

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> Writer:
        """Open the writer of this id and fence its previous holder.

        `open_seconds` is for transactions that take long to append: a log that aborts transactions after a
        timeout extends the timeout by at least that much.
        """
        ...

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        """Append all records or none, outside of the caller's transactions; durable on return.

        Returns the offset of the last record; records of other writers may lie between it and the first.
        Raises LogError `commit-unknown` if the log did not confirm: all records may be written, or none.
        """
        ...

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        """Delete the records below an offset."""
        ...

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        """Publish an app's positions for monitoring tools, if the log has a way to do so. Nothing reads them
        back."""
        ...

    def close(self) -> None: ...
