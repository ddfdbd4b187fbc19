"""Encode whole columns of plain values, to the same bytes as single values."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.serde.plain import PLAIN
from tidegate.serde.protocol import Serde

SIGN_BIT = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(7) + b"\x80")])[0]
"""Of 64 bits. Not made by `pa.scalar`, which imports pandas: that takes a third of a second."""


def encode_ints(numbers: pa.Array[Any]) -> pa.Array[Any]:
    """64-bit numbers, none of them null, as `int` writes them: big endian, sign bit flipped."""
    flipped = array("q")
    flipped.frombytes(memoryview(pc.bit_wise_xor(numbers, SIGN_BIT).buffers()[1])[: 8 * len(numbers)])
    flipped.byteswap()
    data = [None, pa.py_buffer(flipped)]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(numbers), data).cast(pa.binary())


def encode_texts(texts: Sequence[Any]) -> pa.Array[Any] | None:
    """Text as `str` writes it; None if a value is no text, or cannot be encoded: which one is found when they
    are encoded one by one."""
    if set(map(type, texts)) != {str}:
        return None
    try:
        return pa.array(texts, pa.string()).cast(pa.binary())
    except UnicodeEncodeError:
        return None


def surely_decodable(data: pa.Array[Any], serde: Serde[Any] | None) -> bool:
    """Return whether each of these bytes is known to be a value of a plain serde. None of them is null."""
    if serde is PLAIN[str]:
        try:
            data.cast(pa.string())
        except pa.ArrowInvalid:
            return False
        return True
    if serde is PLAIN[int]:
        lengths: Any = pc.min_max(pc.binary_length(data))
        return bool(lengths[0].as_py() == lengths[1].as_py() == 8)
    return serde is PLAIN[bytes]


def decode_column(data: pa.Array[Any], serde: Serde[Any]) -> list[Any]:
    """Values that a serde has written, none of them null. Raises what the serde raises."""
    if serde is PLAIN[str]:
        with suppress(pa.ArrowInvalid):
            texts: list[Any] = data.cast(pa.string()).to_pylist()
            return texts
    listed: list[Any] = data.to_pylist()
    return listed if serde is PLAIN[bytes] else serde.decode_many(listed)


def encode_all(values: Sequence[Any] | pa.Array[Any], encode: Callable[[Any], bytes | None]) -> pa.Array[Any]:
    """Values one by one, as a column."""
    listed = values.to_pylist() if isinstance(values, pa.Array) else values
    return pa.array([encode(value) for value in listed], pa.binary())
