"""The embedded log: everything in one SQLite file, shared by any number of processes on one host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import apsw
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.clock import Clock, SystemClock
from tidegate.errors import LogError
from tidegate.log.checks import check_batch
from tidegate.log.location import LogLocation
from tidegate.log.sqlite.append import link, load_partition, load_partitions, pieces_of, store_batch
from tidegate.log.sqlite.catalog import Catalog
from tidegate.log.sqlite.database import BUSY_SECONDS, Database
from tidegate.log.sqlite.layout import SPAN_COLUMNS, to_span
from tidegate.log.sqlite.reader import SqliteReader, decode_span, read_spans
from tidegate.log.sqlite.retention import purge
from tidegate.log.sqlite.upkeep import Upkeep
from tidegate.log.sqlite.upkeep_lock import Report
from tidegate.log.sqlite.writer import SPILL_BYTES, SqliteWriter
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition


class SqliteLog:
    """A log in the file at `path`, or in memory without one."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Clock | None = None,
        upkeep: bool = True,
        vfs: str | None = None,
        spill_bytes: int = SPILL_BYTES,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._clock = clock or SystemClock()
        self._vfs = vfs
        self._with_upkeep = upkeep
        self._spill_bytes = spill_bytes
        self._database = Database(path, vfs=vfs, busy_seconds=busy_seconds)
        self._catalog = Catalog(self._database)
        self._upkeep = Upkeep(self._database, self._catalog, self._clock)

    @property
    def id(self) -> str:
        return self._database.id

    @property
    def path(self) -> Path | None:
        return self._database.path

    @property
    def location(self) -> LogLocation:
        return LogLocation("sqlite://" if self.path is None else f"sqlite:///{self.path.absolute()}")

    def check(self) -> None:
        """Raise `commit-unknown` after a commit of unknown outcome; a file is never unreachable."""
        self._database.check()

    def create(self, spec: TopicSpec) -> TopicInfo:
        return self._catalog.create(spec)

    def describe(self, name: str) -> TopicInfo:
        return self._catalog.find(name).info

    def names(self) -> list[str]:
        return self._catalog.names()

    def delete(self, name: str) -> None:
        self._catalog.delete(name)

    def ends(
        self,
        partitions: Iterable[TopicPartition],
        *,
        committed: bool = True,  # noqa: ARG002
    ) -> dict[TopicPartition, Offset]:
        """Return the next offsets. `committed` makes no difference: open transactions have no offsets
        here."""
        listed = list(partitions)
        ids = {partition: self._catalog.partition_id(partition) for partition in listed}
        try:
            return self._ends(ids)
        except LogError as error:
            if error.code != "no-such-topic":
                raise
        return self._ends(self._catalog.current_ids(listed))  # a topic was deleted, and maybe recreated

    def _ends(self, ids: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        with self._database.read() as connection:
            rows = load_partitions(connection, ids.values())
        return {partition: Offset(rows[key].next) for partition, key in ids.items()}

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        key = self._catalog.current_ids([partition])[partition]
        with self._database.read() as connection:
            row = load_partition(connection, key)
            offset = row.start
            while (candidate := _first_span_at(connection, key, offset, timestamp)) is not None:
                [(span, data), *_] = read_spans(connection, row, candidate, 0)
                batch = decode_span(span, data)
                late = pc.and_(
                    pc.greater_equal(batch.column(0), offset), pc.greater_equal(batch.column(1), timestamp)
                )
                matching = batch.filter(late)
                if matching.num_rows:
                    return Offset(matching.column(0)[0].as_py())
                offset = candidate + 1
        return Offset(row.next)

    def reader(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        brief: bool = False,  # noqa: ARG002 - it never waits for a fetch
    ) -> SqliteReader:
        return SqliteReader(self._database, self._catalog, positions)

    def writer(
        self,
        writer_id: str,
        *,
        open_seconds: float | None = None,  # noqa: ARG002 - transactions of a live process have no timeout
    ) -> SqliteWriter:
        self._start_upkeep()
        return SqliteWriter(self._database, self._catalog, self._clock, writer_id, self._spill_bytes)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        self._start_upkeep()
        key = self._catalog.current_ids([partition])[partition]
        info = self._catalog.cached(partition).info
        size = check_batch(info, partition.partition, batch, self._clock.now())
        pieces = pieces_of([batch], size)
        with self._database.write() as connection:
            row = load_partition(connection, key)
            link(connection, {row: [(store_batch(connection, piece), piece) for piece in pieces]})
        return Offset(row.next + batch.num_rows - 1)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        purge(self._database, self._catalog.current_ids([partition])[partition], before)

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        """Do nothing: positions are in the positions topic, and no tool looks for them elsewhere."""

    def upkeep(self) -> None:
        """Run now what the upkeep thread runs regularly: retention, due compaction, merging, shrinking."""
        self._upkeep.run()

    def upkeep_report(self) -> Report:
        """Return the report of the last upkeep round of any process."""
        return self._upkeep.report()

    def compact(self, topic: str) -> None:
        """Compact a topic up to its end, now."""
        self._upkeep.run(topic)

    def close(self) -> None:
        self._upkeep.close()
        self._database.close()

    def _start_upkeep(self) -> None:
        if self._with_upkeep:
            self._upkeep.start()


def _first_span_at(connection: apsw.Connection, key: int, offset: int, timestamp: int) -> int | None:
    """Return the last offset of the first span, from `offset` on, with a record at or after `timestamp`."""
    rows = connection.execute(
        f"SELECT {SPAN_COLUMNS} FROM span WHERE partition = ? AND last >= ? ORDER BY last",  # noqa: S608
        (key, offset),
    )
    spans = (to_span(row) for row in rows)
    return next((span.last for span in spans if span.count and span.max_timestamp >= timestamp), None)
