"""Records of time 0.

librdkafka takes 0 for "now", so a record of 1970-01-01 00:00:00.000 is written one millisecond later, with a
header behind its own that says so. Our readers take both back; others see the time one millisecond late.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Headers

WRITTEN_AS = 1
MARK = (f"{HEADER_PREFIX}time", b"0")


def marked(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers of a record of time 0, which is to be written as of WRITTEN_AS."""
    return [*headers, MARK]


def take_back(timestamps: list[int], headers: list[Headers]) -> None:
    """Time 0 where it was meant, and no mark."""
    for index, timestamp in enumerate(timestamps):
        own: Sequence[tuple[str, bytes | None]] = headers[index]
        if timestamp == WRITTEN_AS and own and own[-1] == MARK:
            timestamps[index] = 0
            headers[index] = own[:-1]
