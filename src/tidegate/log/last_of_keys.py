"""Find the last record of each key, in columns and without sorting."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def last_of_keys(numbers: pa.Array[Any], count: int) -> pa.Array[Any]:
    """Return for each number below `count` the index of its last occurrence, and null if there is none.
    `numbers` are those of the records' keys."""
    if len(numbers) < count:
        numbers = pa.concat_arrays([numbers, pa.nulls(count - len(numbers), numbers.type)])
    found: pa.Array[Any] = pc.call_function("inverse_permutation", [numbers])  # the last of equal ones counts
    return found.slice(0, count)


def last_of_each(numbers: pa.Array[Any]) -> pa.Array[Any]:
    """Return the index of the last record of each key, in the order of the keys' first records. `numbers` is
    the number of each record's key."""
    by_first: Any = numbers.dictionary_encode()
    return last_of_keys(by_first.indices, len(by_first.dictionary))
