"""Map a key to a partition: the same one that Kafka's Java producer chooses.

So a topic that other programs write can be joined, partition by partition, with one that tidegate writes.
The hash is Kafka's murmur2 (`Utils.murmur2`, seed 0x9747b28c) over the key's bytes; the sign bit is dropped,
not negated, before the remainder is taken.
"""

from __future__ import annotations

import struct
from functools import lru_cache

SEED = 0x9747B28C
M = 0x5BD1E995
_32 = 0xFFFFFFFF


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition of a key, 0 to partitions - 1. A null key has no partition of its own."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 as Java does: a signed 32-bit number."""
    unsigned = _murmur2(data)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def _murmur2(data: bytes) -> int:
    size = len(data)
    h = SEED ^ size
    for k in _words(size // 4).unpack_from(data):
        k = k * M & _32  # noqa: PLW2901 - one name less on the hot path
        h = (h * M ^ (k ^ k >> 24) * M) & _32
    if rest := size & 3:
        h = (h ^ int.from_bytes(data[size - rest :], "little")) * M & _32
    h = (h ^ h >> 13) * M & _32
    return h ^ h >> 15


@lru_cache(maxsize=1024)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")
