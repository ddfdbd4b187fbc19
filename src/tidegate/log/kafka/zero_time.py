"""Records with timestamp 0.

librdkafka interprets timestamp 0 as "now", so a record of 1970-01-01 00:00:00.000 is written with timestamp 1
and a marker header after its own headers. tidegate's readers undo both; other readers see timestamp 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Headers

WRITTEN_AS = 1
MARK = (f"{HEADER_PREFIX}time", b"0")


def marked(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record with timestamp 0, which is written with WRITTEN_AS."""
    return [*headers, MARK]


def restore_zeros(timestamps: list[int], headers: list[Headers]) -> None:
    """Set marked records back to timestamp 0 and remove the marker header."""
    for index, timestamp in enumerate(timestamps):
        pairs: Sequence[tuple[str, bytes | None]] = headers[index]
        if timestamp == WRITTEN_AS and pairs and pairs[-1] == MARK:
            timestamps[index] = 0
            headers[index] = pairs[:-1]
