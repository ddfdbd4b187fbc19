"""The logs that a run can stand on: the model of a broker, and the embedded log in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import pyarrow as pa

from tidegate.clock import Clock
from tidegate.log.protocol import Fetched, Log, Reader
from tidegate.log.records import ReadRow, rows_of
from tidegate.log.sqlite.catalog import Catalog
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.types import Offset, TopicPartition

SPILL_BYTES = 300


Rows = dict[TopicPartition, list[ReadRow]]


class Follower(Protocol):
    """Follows everything that is committed, whatever hides it from others."""

    def read(self) -> Rows:
        """What came since the last time, in the order of each partition."""
        ...

    def close(self) -> None: ...


class SimLog(Log, Protocol):
    """A log that a run can compact, and look through."""

    def compact(self, topic: str) -> None: ...

    def truth(self, positions: Mapping[TopicPartition, Offset]) -> Follower: ...


class PacedLog(SqliteLog):
    """The embedded log in memory, with short pages, so that a restore takes many turns, and small spills."""

    def __init__(self, clock: Clock, page: int) -> None:
        super().__init__(clock=clock, upkeep=False, spill_bytes=SPILL_BYTES)
        self._page = page

    def reader(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        brief: bool = False,  # noqa: ARG002
    ) -> SqliteReader:
        return PacedReader(self._database, self._catalog, positions, self._page)

    def truth(self, positions: Mapping[TopicPartition, Offset]) -> Follower:
        return _Whole(super().reader(positions))


class _Whole:
    """Follows by reading to the end: the embedded log hides nothing."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self) -> Rows:
        rows: Rows = {}
        while fetched := self._reader.poll(0):
            for one in fetched:
                if one.batch.num_rows:
                    rows.setdefault(one.partition, []).extend(rows_of(one.batch))
        return rows

    def close(self) -> None:
        self._reader.close()


class PacedReader(SqliteReader):
    """Gives at most some records of a partition in one poll."""

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        positions: Mapping[TopicPartition, Offset],
        page: int,
    ) -> None:
        super().__init__(database, catalog, positions)
        self._size = page
        self._given: dict[TopicPartition, int] = dict(positions)
        self._waiting: dict[TopicPartition, tuple[pa.RecordBatch, int]] = {}

    def poll(self, timeout: float) -> list[Fetched]:
        if not self._waiting:
            for fetched in super().poll(timeout):
                self._waiting[fetched.partition] = fetched.batch, int(fetched.next)
        return [self._page_of(partition) for partition in list(self._waiting)]

    def position(self, partition: TopicPartition) -> Offset:
        return Offset(self._given[partition])

    def at_end(self, partition: TopicPartition) -> bool:
        return partition not in self._waiting and super().at_end(partition)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        self._waiting.pop(partition, None)
        self._given[partition] = offset
        super().seek(partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        for partition in self._waiting.keys() & set(partitions):
            self.seek(partition, self.position(partition))
        super().pause(partitions)

    def _page_of(self, partition: TopicPartition) -> Fetched:
        batch, behind = self._waiting.pop(partition)
        if batch.num_rows > self._size:
            self._waiting[partition] = batch.slice(self._size), behind
            batch = batch.slice(0, self._size)
            behind = batch.column(0)[self._size - 1].as_py() + 1
        self._given[partition] = behind
        return Fetched(partition, batch, Offset(behind))
