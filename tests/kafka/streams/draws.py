"""Random records for both sides: the same seed gives the same records."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.kafka.clients import Draft

KEYS = [f"{'k' * (number % 9)}ä-{number}".encode() for number in range(60)]
"""Of many lengths, and with characters of two bytes: a hash that stumbles over either would show."""
START = time.time_ns() // 1_000_000 - 3_600_000
"""Not long ago: the end of a transaction is stamped with the time of the broker, and where that is days after
the records, a new segment begins, and the old one is compacted."""


def drawn(
    seed: int, count: int, value: Callable[[random.Random], str], *, lane: int = 0, tombstones: float = 0.15
) -> list[Draft]:
    """Records with rising times. Two topics drawn in different lanes never share a time, so that a merge by
    time has one right order."""
    source = random.Random(seed)
    drafts = []
    for number in range(count):
        key = source.choice(KEYS)
        text = None if source.random() < tombstones else value(source).encode()
        drafts.append(Draft(key, text, START + 10 * number + lane))
    return drafts


def word(source: random.Random) -> str:
    return source.choice(["the", "tide", "gate", "x-ray", "xylem", "sea", "ebb", "flow", "größe", ""])


def number(source: random.Random) -> str:
    """Not negative: Java's remainder of a negative number is not Python's."""
    return str(source.randrange(1000))


def name(source: random.Random) -> str:
    return f"v{source.randrange(10**6)}"
