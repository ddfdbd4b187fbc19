"""The records that the log is measured with: orders of customers as JSON, about 120 bytes each."""

from __future__ import annotations

import random
import time

import pyarrow as pa

from tidegate.log.records import columns_to_batch

CUSTOMERS = 100_000


def batches_of(count: int, size: int, *, seed: int = 1, customers: int = CUSTOMERS) -> list[pa.RecordBatch]:
    """Some batches of so many records each, without headers, with timestamps that end about now."""
    return [batch_of(size, seed=seed * 1_000_003 + number, customers=customers) for number in range(count)]


def batch_of(size: int, *, seed: int, customers: int = CUSTOMERS) -> pa.RecordBatch:
    """One batch, the same for the same seed but for its timestamps."""
    rng = random.Random(seed)
    now = time.time_ns() // 1_000_000 - size
    buyers = [rng.randrange(customers) for _ in range(size)]
    return columns_to_batch(
        [now + number for number in range(size)],
        [b"customer-%08d" % buyer for buyer in buyers],
        [_order(rng, buyer) for buyer in buyers],
    )


def _order(rng: random.Random, buyer: int) -> bytes:
    return b'{"order":"%016x","customer":%d,"amount":%.2f,"currency":"EUR","status":"%s","items":%d}' % (
        rng.getrandbits(64),
        buyer,
        rng.random() * 1000,
        rng.choice((b"open", b"paid", b"sent")),
        rng.randrange(1, 10),
    )
