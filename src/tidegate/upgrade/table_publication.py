"""What an upgrade publishes of a table topic: one record for each row that differs.

A row that differs is one put with its own timestamp and headers; a row that is gone is one tombstone, with
the timestamp of what it removes. Both are in the partition of the row. Needs no code of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.names import is_internal_header
from tidegate.log.records import APPEND_SCHEMA, Headers, header_column
from tidegate.runtime.output.origin import OWNER, no_own_headers, owner_headers

RECORDS_PER_TRANSACTION = 10_000
BYTES_PER_TRANSACTION = 32 * 2**20


def corrections(differing: pa.RecordBatch, owner: bytes) -> list[pa.RecordBatch]:
    """Return the records for rows that differ, of the schema DIFFERENCES: puts, then tombstones."""
    gone = pc.is_null(differing.column("after"))
    puts, removals = differing.filter(pc.invert(gone)), differing.filter(gone)
    found = [
        _records(puts, "after_time", _headers(puts.column("headers"), owner)),
        _records(removals, "before_time", owner_headers(owner, removals.num_rows)),
    ]
    return [batch for batch in found if batch.num_rows]


def transactions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records for one transaction after the other."""
    for batch in batches:
        for start in range(0, batch.num_rows, RECORDS_PER_TRANSACTION):
            yield from _small(batch.slice(start, RECORDS_PER_TRANSACTION))


def _small(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows < 2 or batch.nbytes <= BYTES_PER_TRANSACTION:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _small(batch.slice(0, half))
    yield from _small(batch.slice(half))


def _records(differing: pa.RecordBatch, times: str, headers: pa.Array[Any]) -> pa.RecordBatch:
    columns = [differing.column(times), differing.column("key"), differing.column("after"), headers]
    return pa.RecordBatch.from_arrays(columns, schema=APPEND_SCHEMA)


def _headers(staged: pa.Array[Any], owner: bytes) -> pa.Array[Any]:
    """Return the headers of staged rows: their own, and the owner."""
    if no_own_headers(staged):
        return owner_headers(owner, len(staged))
    return header_column([_owned(row, owner) for row in staged.to_pylist()])


def _owned(staged: Iterable[Mapping[str, Any]] | None, owner: bytes) -> Headers:
    found = [(str(pair["name"]), pair["value"]) for pair in staged or ()]
    return [*(pair for pair in found if not is_internal_header(pair[0])), (OWNER, owner)]
