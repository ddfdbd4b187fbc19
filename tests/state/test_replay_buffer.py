"""Changelog records that are applied together: the last word on each key, whatever came before."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.records import READ_SCHEMA, rows_of
from tidegate.state.replay_buffer import ReplayBuffer

KEYS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"b", b"\xff" * 600])
VALUES = st.none() | st.binary(max_size=3)


def batch(first: int, rows: list[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    """Records with gaps between their offsets, as compaction leaves them."""
    columns = [
        pa.array([first + 3 * at for at in range(len(rows))], pa.int64()),
        pa.array(range(len(rows)), pa.int64()),
        pa.array([key for key, _ in rows], pa.binary()),
        pa.array([value for _, value in rows], pa.binary()),
        pa.nulls(len(rows), READ_SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=READ_SCHEMA)


@given(st.lists(st.lists(st.tuples(KEYS, VALUES), max_size=20), min_size=1, max_size=4))
def test_the_buffer_folds_to_the_newest_value_per_key(parts: list[list[tuple[bytes, bytes | None]]]) -> None:
    """Deletes are words too: they must reach a store that held the row before."""
    buffer = ReplayBuffer()
    expected: dict[bytes, bytes | None] = {}
    behind = 7
    for rows in parts:
        buffer.add(batch(behind, rows), behind + 3 * len(rows))
        behind += 3 * len(rows)
        expected.update(rows)
    found = [(row.key, row.value) for row in rows_of(buffer.newest_per_key())]
    assert found == sorted(expected.items())
    assert (buffer.records, buffer.next) == (sum(map(len, parts)), behind)
