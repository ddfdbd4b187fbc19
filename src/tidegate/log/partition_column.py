"""Map a column of keys to partitions: the same ones as `partitioner`, many keys at a time.

Keys are hashed by their length: all first words together, then all second words, and so on.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.partitioner import SEED, M, partition_for

FEW_KEYS = 256
"""Fewer are faster one by one."""
MOST_LENGTHS = 64


def partition_column(keys: pa.Array[Any], partitions: int) -> pa.Array[Any]:
    """Return the partitions of keys, none of them null."""
    lengths: Any = pc.binary_length(keys)
    distinct = pc.unique(lengths).to_pylist()
    if len(keys) < FEW_KEYS or len(distinct) > MOST_LENGTHS or sys.byteorder != "little":
        return pa.array([partition_for(key, partitions) for key in keys.to_pylist()], pa.int32())
    rows: list[Any] = [pc.indices_nonzero(pc.equal(lengths, length)) for length in distinct]
    hashes: Any = pa.concat_arrays(
        [_hashed(keys.take(at), length) for at, length in zip(rows, distinct, strict=True)]
    )
    back: Any = pc.inverse_permutation(pa.concat_arrays(rows).cast(pa.int64()))
    positive: Any = pc.bit_wise_and(hashes.take(back), _number(0x7FFFFFFF)).cast(pa.int32())
    count = pa.scalar(partitions, pa.int32())
    found: pa.Array[Any] = pc.subtract(positive, pc.multiply(pc.divide(positive, count), count))
    return found


def _hashed(keys: pa.Array[Any], size: int) -> Any:
    """Return the hashes of keys of one size, as unsigned numbers. The arithmetic wraps around at 32 bits."""
    count, rest = len(keys), size & 3
    words = size // 4 + (1 if rest else 0)
    padded: Any = pc.binary_join_element_wise(keys, b"\0" * (4 * words - size), b"")
    each = pa.Array.from_buffers(pa.uint32(), count * words, [None, padded.buffers()[2]])
    h: Any = pa.repeat(_number(SEED ^ size), count)
    for word in range(words):
        k: Any = each.take(pa.arange(word, count * words, words))
        if rest and word == words - 1:
            h = pc.multiply(pc.bit_wise_xor(h, k), _number(M))
        else:
            k = pc.multiply(_folded(pc.multiply(k, _number(M)), 24), _number(M))
            h = pc.bit_wise_xor(pc.multiply(h, _number(M)), k)
    return _folded(pc.multiply(_folded(h, 13), _number(M)), 15)


def _folded(numbers: Any, bits: int) -> Any:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, _number(bits)))


def _number(value: int) -> Any:
    return pa.scalar(value, pa.uint32())
