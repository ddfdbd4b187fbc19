"""Rows on their way to a staging topic: folded per key and commit, under the name of the task that wrote
them.

Two tasks may write one row, and which of them commits last is chance. So the key of a staged record is the
task and the row's key: a compacted topic keeps the newest record of each task, and a reader takes the one
that comes last in the order of a replay, by the origin in its headers.

    key   task NUL key
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_keys
from tidegate.log.records import APPEND_SCHEMA

_SEPARATOR = b"\0"


def newest(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the last row of each key."""
    rows = pa.concat_batches(batches)
    encoded: Any = rows.column(1).dictionary_encode()
    if len(encoded.dictionary) == rows.num_rows:
        return rows
    return rows.take(last_of_keys(encoded.indices, len(encoded.dictionary)))


def staged(rows: pa.RecordBatch, task: bytes) -> pa.RecordBatch:
    """Return rows as records of a staging topic."""
    timestamps, of_rows, values, headers = rows.columns
    keys: Any = pc.binary_join_element_wise(
        pa.scalar(task, pa.binary()), of_rows, pa.scalar(_SEPARATOR, pa.binary())
    )
    return pa.RecordBatch.from_arrays([timestamps, keys, values, headers], schema=APPEND_SCHEMA)


def split_key(staged: bytes) -> tuple[bytes, bytes]:
    """Return the task and the key of a staged record."""
    task, _, key = staged.partition(_SEPARATOR)
    return task, key


def split_keys(staged: pa.Array[Any]) -> pa.Array[Any]:
    """Return the keys of staged records."""
    parts: Any = pc.split_pattern(staged, pattern=_SEPARATOR, max_splits=1).flatten()
    found: pa.Array[Any] = parts.take(pa.arange(1, 2 * len(staged), 2))
    return found
