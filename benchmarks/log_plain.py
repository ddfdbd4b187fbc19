"""What the log is compared with: a SQLite table with one row per record, made as well as one can.

Same library, page size, cache, WAL and `synchronous=FULL`; rows in the order of the key, so that a range
is one walk; `executemany` in one transaction; reads in pages, with no read left open. The WAL is moved
into the file as SQLite does it by default, every 1000 pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa

from tidegate.log.records import READ_SCHEMA
from tidegate.log.sqlite.layout import PAGE_SIZE

PAGE_RECORDS = 10_000

Record = tuple[int, int, int, bytes | None, bytes | None, Any]


class PlainTable:
    """One table of records."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        for name, value in (
            ("page_size", PAGE_SIZE),
            ("journal_mode", "WAL"),
            ("synchronous", "FULL"),
            ("cache_size", -8192),
        ):
            self._connection.pragma(name, value)
        self._connection.execute(
            "CREATE TABLE record (partition INTEGER NOT NULL, offset INTEGER NOT NULL, timestamp INTEGER"
            " NOT NULL, key BLOB, value BLOB, headers BLOB, PRIMARY KEY (partition, offset)) WITHOUT ROWID"
        )

    def append(self, records: list[Record]) -> None:
        """One durable transaction."""
        with self._transaction():
            self._connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)", records)

    def read(self, partition: int, start: int, end: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows (offset, timestamp, key, value, headers) from `start` to below `end`, page by page."""
        query = (
            "SELECT offset, timestamp, key, value, headers FROM record"
            " WHERE partition = ? AND offset >= ? AND offset < ? ORDER BY offset LIMIT ?"
        )
        while start < end:
            page: list[Any] = list(self._connection.execute(query, (partition, start, end, PAGE_RECORDS)))
            if not page:
                return
            yield page
            start = page[-1][0] + 1

    def close(self) -> None:
        self._connection.close()

    def _transaction(self) -> apsw.Connection:
        self._connection.transaction_mode = "IMMEDIATE"
        return self._connection


def to_records(batch: pa.RecordBatch, partition: int, offset: int) -> list[Record]:
    """An appended batch as rows of the table. No headers: the records measured here have none."""
    count = batch.num_rows
    columns = (batch.column(name).to_pylist() for name in ("timestamp", "key", "value"))
    rest = [None] * count
    return list(zip([partition] * count, range(offset, offset + count), *columns, rest, strict=True))


def to_batch(page: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """A page of rows as the batch that a reader of the log gets."""
    columns = zip(*page, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, READ_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=READ_SCHEMA)
