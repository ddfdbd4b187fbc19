"""Read committed records in short pages.

A page is one read transaction: the partitions' current rows, then the spans from the position on. Spans must
be contiguous: a gap between two of them, or before the end, is damage and is never skipped.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Mapping

import apsw
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LogError
from tidegate.log.protocol import Fetched
from tidegate.log.records import NO_RECORDS
from tidegate.log.sqlite.append import load_partition
from tidegate.log.sqlite.catalog import Catalog
from tidegate.log.sqlite.codec import decode
from tidegate.log.sqlite.database import Database, snapshot
from tidegate.log.sqlite.error_mapping import translated_errors
from tidegate.log.sqlite.layout import SPAN_COLUMNS, PartitionRow, Span, corrupt, to_span
from tidegate.types import Offset, TopicPartition

PAGE_BYTES = 4 << 20
PAGE_SPANS = 64
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.01

_SPANS = (
    f"SELECT {SPAN_COLUMNS}, (SELECT data FROM batch WHERE id = span.batch)"  # noqa: S608 - constants
    " FROM span WHERE partition = ? AND last >= ? ORDER BY last"
)


def read_spans(
    connection: apsw.Connection, partition: PartitionRow, offset: int, max_bytes: int
) -> list[tuple[Span, bytes | None]]:
    """Return the spans that hold the offsets from `offset` on, with their bytes, in order; raise for a
    gap."""
    found: list[tuple[Span, bytes | None]] = []
    size, expected = 0, None
    for row in connection.execute(_SPANS, (partition.id, offset)):
        span, data = to_span(row[:13]), row[13]
        if span.base > offset if expected is None else span.base != expected:
            raise corrupt(f"offsets before {span.base} are missing")
        if not _matches(span, data):
            raise corrupt(f"the batch at offset {span.base} does not match its checksum")
        found.append((span, data))
        size += span.raw
        expected = span.last + 1
        if size >= max_bytes or len(found) >= PAGE_SPANS:
            return found
    if (offset if expected is None else expected) != partition.next:
        raise corrupt(f"offsets before {partition.next} are missing")
    return found


def _matches(span: Span, data: object) -> bool:
    """Whether these are the bytes that the span links to: None if it has no records left."""
    if data is None:
        return span.count == 0
    return isinstance(data, bytes) and span.count > 0 and zlib.crc32(data) == span.checksum


def decode_span(span: Span, data: bytes | None) -> pa.RecordBatch:
    """Decode the records of a span, with their offsets."""
    return NO_RECORDS if data is None else decode(data, span.kind, span.raw, span.base)


class SqliteReader:
    """Reads committed records of some partitions."""

    def __init__(
        self, database: Database, catalog: Catalog, positions: Mapping[TopicPartition, Offset]
    ) -> None:
        self._ids = catalog.current_ids(positions)
        self._database = database
        self._connection = database.take_connection()
        self._closed = False
        self._positions: dict[TopicPartition, int] = dict(positions)
        self._ended: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._version: int | None = None
        self._more = True

    def poll(self, timeout: float) -> list[Fetched]:
        if self._closed:
            raise LogError("closed", "the reader is closed", "open another one")
        deadline = time.monotonic() + timeout
        nap = SHORTEST_NAP
        while True:
            # Kept if the page fails: the next poll must fail again, or return what this one did not.
            self._more = self._changed() or self._more
            if self._more:
                fetched = self._page()
                if fetched:
                    return fetched
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            time.sleep(min(nap, left))
            nap = min(nap * 2, LONGEST_NAP)

    def position(self, partition: TopicPartition) -> Offset:
        return Offset(self._positions[partition])

    def at_end(self, partition: TopicPartition) -> bool:
        return partition in self._ended

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        self._positions[partition] = offset
        self._ended.discard(partition)
        self._more = True

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._paused = set(partitions)
        self._ended -= self._paused
        self._more = True

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._database.release(self._connection)

    def _changed(self) -> bool:
        with translated_errors():
            version: int = self._connection.pragma("data_version")
        changed = version != self._version
        self._version = version
        return changed

    def _page(self) -> list[Fetched]:
        """Read one page: an equal share of the bytes for each partition that has records."""
        pages: list[tuple[TopicPartition, int, list[tuple[Span, bytes | None]]]] = []
        with snapshot(self._connection):
            lagging = []
            for partition, key in self._ids.items():
                if partition in self._paused:
                    continue
                row = load_partition(self._connection, key)
                _check_in_range(partition, self._positions[partition], row)
                if self._positions[partition] < row.next:
                    lagging.append((partition, row))
                else:
                    self._ended.add(partition)
            for partition, row in lagging:
                spans = read_spans(
                    self._connection, row, self._positions[partition], PAGE_BYTES // len(lagging)
                )
                pages.append((partition, row.next, spans))
        self._more = False
        return [self._fetched(*page) for page in pages]

    def _fetched(
        self, partition: TopicPartition, end: int, spans: list[tuple[Span, bytes | None]]
    ) -> Fetched:
        position = self._positions[partition]
        batch = pa.concat_batches([decode_span(span, data) for span, data in spans])
        if spans[0][0].base < position:
            batch = batch.filter(pc.greater_equal(batch.column(0), pa.scalar(position, pa.int64())))
        after = spans[-1][0].last + 1
        self._positions[partition] = after
        if after == end:
            self._ended.add(partition)
        else:
            self._ended.discard(partition)
            self._more = True
        return Fetched(partition, batch, Offset(after))


def _check_in_range(partition: TopicPartition, position: int, row: PartitionRow) -> None:
    if row.start <= position <= row.next:
        return
    raise LogError(
        "offset-out-of-range",
        f"{partition} holds offsets {row.start} to {row.next - 1}, but {position} was requested",
        "older records were deleted by retention or a purge; start from the topic's first offset",
    )
