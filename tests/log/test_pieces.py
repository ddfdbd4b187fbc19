"""The batches of a transaction are stored in pieces of about one size, whatever sizes they have."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.log.records import Row, rows_of, to_batch
from tidegate.log.sqlite import append
from tidegate.log.sqlite.codec import decode

PIECE = 2_000
batches = st.lists(st.lists(st.integers(0, 200), max_size=80), min_size=1, max_size=12)


@given(batches)
@example([[200] * 80, [1]])
def test_pieces_hold_all_records_in_order_and_are_neither_small_nor_large(
    given_sizes: list[list[int]],
) -> None:
    rows = [[Row(b"k", bytes([at % 256]) * size, at) for at, size in enumerate(one)] for one in given_sizes]
    given_batches = [to_batch(one) for one in rows]
    size = sum(batch.nbytes for batch in given_batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "PIECE_BYTES", PIECE)
        pieces = append.pieces_of(given_batches, size)
    decoded = [decode(piece.data, piece.kind, piece.raw, 0) for piece in pieces]
    found = [(row.value, row.timestamp) for batch in decoded for row in rows_of(batch)]
    assert found == [(row.value, row.timestamp) for one in rows for row in one]
    sizes = [_size(batch) for batch in decoded]
    assert all(one < 2 * PIECE for one in sizes)
    assert len(sizes) <= 1 + 3 * size // PIECE, "small batches are joined"


def _size(batch: pa.RecordBatch) -> int:
    return sum(batch.column(number).nbytes for number in (1, 2, 3))
