"""Replace a run of spans by one: the only way in which stored records are ever rewritten.

Steps: 1 read the run and build its replacement, with no lock held; 2 begin a short transaction; 3 check
that the run is still there as it was read; 4 store the new batch, delete the old spans and batches, link
the new span over the same offsets; 5 commit. A crash leaves either the run or its replacement, so the
commit needs no sync of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import pyarrow as pa

from tidegate.log.faultpoints import reach
from tidegate.log.sqlite.append import store_batch
from tidegate.log.sqlite.codec import Encoded, encode_sparse
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.layout import INSERT_SPAN, SPAN_COLUMNS, Span, to_span

TARGET_BYTES = 1 << 20
SMALL_BYTES = 64 * 1024


def replace_run(database: Database, run: Sequence[Span], kept: pa.RecordBatch, horizon: int) -> bool:
    """Replace the run by `kept`, its remaining records. Return False if the run changed in the meantime."""
    encoded = encode_sparse(kept, run[0].base) if kept.num_rows else None
    reach("log.compact.2")
    with database.write(sync=False) as connection:
        reach("log.compact.3")
        if _stored(connection, run) != list(run):
            return False
        reach("log.compact.4")
        key, first, last = run[0].partition, run[0].last, run[-1].last
        connection.execute(
            "DELETE FROM batch WHERE id IN"
            " (SELECT batch FROM span WHERE partition = ? AND last BETWEEN ? AND ?)",
            (key, first, last),
        )
        connection.execute(
            "DELETE FROM span WHERE partition = ? AND last BETWEEN ? AND ?", (key, first, last)
        )
        batch_id = store_batch(connection, encoded) if encoded else 0
        connection.execute(INSERT_SPAN, _joined(run, encoded, batch_id, horizon).row())
        reach("log.compact.5")
    database.sync_wal()
    return True


def _stored(connection: apsw.Connection, run: Sequence[Span]) -> list[Span]:
    rows = connection.execute(
        f"SELECT {SPAN_COLUMNS} FROM span WHERE partition = ? AND last BETWEEN ? AND ? ORDER BY last",  # noqa: S608
        (run[0].partition, run[0].last, run[-1].last),
    )
    return [to_span(row) for row in rows]


def _joined(run: Sequence[Span], encoded: Encoded | None, batch_id: int, horizon: int) -> Span:
    return Span(
        partition=run[0].partition,
        last=run[-1].last,
        base=run[0].base,
        count=encoded.count if encoded else 0,
        kind=encoded.kind if encoded else 0,
        raw=encoded.raw if encoded else 0,
        size=encoded.size if encoded else 0,
        max_timestamp=encoded.max_timestamp if encoded else max(span.max_timestamp for span in run),
        tombstones=encoded.tombstones if encoded else 0,
        horizon=horizon if encoded and encoded.tombstones else 0,
        batch=batch_id,
        checksum=encoded.checksum if encoded else 0,
    )
