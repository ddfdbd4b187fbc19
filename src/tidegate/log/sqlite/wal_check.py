"""Detect damage in a write-ahead log that a crash left behind.

After a crash SQLite takes the frames of the WAL up to the first one whose checksum is wrong, and silently
drops the rest. That is right for the end of the WAL, which a power cut may tear; but a flipped byte before
the end would drop acknowledged transactions. So, before SQLite opens such a file, the frames after the first
wrong one are checked here.

The rule: it is damage if, after a wrong frame, some frames still chain on each other, and they hold a
synced commit and at least one more frame. A synced commit returns only when everything before it is on the
disk, and only then the next frame is written; so a power cut cannot have torn anything before such a pair.
Nothing else can cause it either: what a failed or killed commit leaves behind holds no frame that chains on
its commit frame, and a reset WAL has other salts. Counting commit frames would prove nothing: spilled pieces
are committed unsynced (`Database.write`), and any number of them may be torn together. That is why each
synced transaction, and no other, writes the page of the table `synced`: the frames of a transaction show its
pages.

Not detected, because a power cut may look the same: damage to the last synced commit and what follows it, and
a WAL that was truncated or deleted. A torn header of the WAL counts as damage: its 32 bytes lie in one sector
and are synced before the first frame.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.sqlite.layout import PAGE_SIZE, SYNCED_PAGE, corrupt

HEADER_BYTES = 32
FRAME_BYTES = 24 + PAGE_SIZE

Sums = tuple[int, int]


class Frame(NamedTuple):
    """A frame as stored. `body` is what its checksum covers."""

    page: int
    is_commit: bool
    salts: bytes
    sums: Sums
    body: bytes


def check_wal(wal: Path, is_alone: Callable[[], bool]) -> None:
    """Raise LogError `corrupt` if damage in the WAL would make SQLite drop acknowledged transactions.

    `is_alone` returns whether no connection to the database is open in any process, and keeps new ones
    waiting: only the first process to open the file after a crash recovers the WAL, and the WAL of an open
    database may be written to. Concurrent callers take turns by a lock on the WAL file, which SQLite itself
    never locks.
    """
    with wal.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if is_alone():
            _check_frames(file)


def _check_frames(file: BinaryIO) -> None:
    header = file.read(HEADER_BYTES)
    salts, sums = header[16:24], _numbers(header[24:])
    broken = len(header) == HEADER_BYTES and checksum((0, 0), header[:24]) != sums
    expected = b"" if broken else salts
    synced = committed = False
    for frame in _frames(file):
        if frame.salts != salts or checksum(sums, frame.body) != frame.sums:
            broken, synced, committed = True, False, False
        elif broken and committed and frame.salts.startswith(expected):
            raise corrupt("a transaction in its write-ahead log does not match its checksum")
        synced = synced or frame.page == SYNCED_PAGE
        committed = committed or (synced and frame.is_commit)
        salts, sums = frame.salts, frame.sums


def _frames(file: BinaryIO) -> Iterator[Frame]:
    while len(data := file.read(FRAME_BYTES)) == FRAME_BYTES:
        page, pages = _numbers(data[:8])
        yield Frame(page, pages > 0, data[8:16], _numbers(data[16:24]), data[:8] + data[24:])


def _numbers(data: bytes) -> Sums:
    return int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")


def checksum(seed: Sums, data: bytes) -> Sums:
    """Return SQLite's WAL checksum. It is defined over pairs of 32-bit words: s1 += x + s2; s2 += y + s1.
    Expanded, each word is weighted with a Fibonacci number, and a sum of products is faster than a loop."""
    count = len(data) // 4
    words: Any = pa.Array.from_buffers(pa.uint32(), count, [None, pa.py_buffer(data)])
    low, high, (before, at, after) = _weights(count)
    first = pc.sum(pc.multiply(words, low)).as_py() + before * seed[0] + at * seed[1]
    second = pc.sum(pc.multiply(words, high)).as_py() + at * seed[0] + after * seed[1]
    return first % 2**32, second % 2**32


@cache
def _weights(count: int) -> tuple[Any, Any, tuple[int, int, int]]:
    numbers = [0, 1]
    while len(numbers) < count + 2:
        numbers.append((numbers[-1] + numbers[-2]) % 2**32)
    low = pa.array(reversed(numbers[:count]), pa.uint32())
    high = pa.array(reversed(numbers[1 : count + 1]), pa.uint32())
    return low, high, (numbers[count - 1], numbers[count], numbers[count + 1])
