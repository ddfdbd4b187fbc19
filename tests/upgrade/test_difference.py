"""The rows that a preview finds to differ: ordered by key, counted, and in bounded memory however many."""

from __future__ import annotations

import gc
import multiprocessing
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.repetitions import repeated
from tests.upgrade.test_comparison import LIVE_AT, compared, filled, large

from tidegate.cli.plan_preview import write_parquet
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.replay import Cut
from tidegate.upgrade import comparison
from tidegate.upgrade.cut import Bracket
from tidegate.upgrade.difference import Counts, difference
from tidegate.upgrade.previews import Preview
from tidegate.upgrade.sorted_rows import ROWS, RowDifference, SortedRows

optional = st.none() | st.binary(max_size=3)
differing = st.builds(RowDifference, st.binary(max_size=4), optional, optional).filter(
    lambda row: row.before != row.after
)


@given(
    st.lists(st.lists(differing, max_size=8), max_size=6).map(
        lambda parts: [list({row.key: row for row in part}.values()) for part in parts]
    ),
    st.sampled_from([0, 60, 10_000]),
)
@example([[RowDifference(b"b", None, b"1"), RowDifference(b"a", b"1", None)]], 0)
def test_rows_are_ordered_by_key_whether_or_not_they_are_in_a_file(
    parts: list[list[RowDifference]], limit: int
) -> None:
    kept = SortedRows(limit=limit)
    for part in parts:
        columns = [pa.array(column, pa.binary()) for column in zip(*part, strict=True)] or [
            pa.nulls(0, pa.binary())
        ] * 3
        kept.add(pa.RecordBatch.from_arrays(columns, schema=ROWS))
    rows = [row for part in parts for row in part]
    for _ in range(2):
        assert [row.key for row in kept] == sorted(row.key for row in rows)
        assert sorted(kept, key=repr) == sorted(rows, key=repr)
    assert len(kept) == len(rows)
    put, removed = (sum(row[side] is None for row in rows) for side in (1, 2))
    found = kept.counts()
    assert (found.put, found.changed, found.removed) == (put, len(rows) - put - removed, removed)
    assert limit or bool(kept.file_bytes) == bool(rows)


def test_a_file_is_closed_with_the_rows_that_are_in_it(tmp_path: Path) -> None:
    kept = SortedRows(tmp_path, limit=0)
    columns = [pa.array([b"a"], pa.binary())] * 3
    kept.add(pa.RecordBatch.from_arrays(columns, schema=ROWS))
    assert not list(tmp_path.iterdir())
    file = kept._spill._file
    assert file is not None
    assert not file.closed
    del kept
    gc.collect()
    assert file.closed


def preview_large(folder: Path, limit: int, rows: int) -> tuple[Counts, bool, int, int]:
    """In a process of its own: what differs; whether all rows came in order; how many are in the Parquet
    file; and bytes in memory at most."""
    comparison.MEMORY = limit
    log = filled(SqliteLog(), [], [])
    large(log, rows, 800, differs=1)
    tracemalloc.start()
    bracket = Bracket(Cut({}, 0), {LIVE_AT: rows}, {LIVE_AT: rows}, settled=True)
    found = difference(log, compared(log), bracket, folder)
    assert not list(folder.iterdir())
    ordered = all(one.key < next_one.key for one, next_one in pairwise(found.rows))
    write_parquet(Preview("shop", {"out": found}, 0, rows, 1, settled=True), folder / "rows.parquet")
    peak = pa.default_memory_pool().max_memory() + tracemalloc.get_traced_memory()[1]
    written = pq.ParquetFile(folder / "rows.parquet").metadata.num_rows
    return found.counts(), ordered, written, peak


@pytest.mark.soak
@pytest.mark.timeout(1200)  # a million rows take three minutes of CPU
def test_memory_of_a_preview_is_bounded_however_many_rows_differ(tmp_path: Path) -> None:
    """20,000 rows that differ have 34 MB, in the soak 1,000,000 rows 1.7 GB."""
    limit, rows = 64 * 2**20, repeated(20_000, soak=1_000_000)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        counts, ordered, written, peak = pool.apply(preview_large, (tmp_path, limit, rows))
    assert counts == Counts(0, rows - rows // 100, rows // 100)
    assert ordered
    assert written == rows
    assert peak < limit + 48 * 2**20, f"{peak / 2**20:.0f} MiB"
