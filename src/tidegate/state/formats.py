"""The layout of rows of each kind of store, in the store and in its changelog.

| kind        | suffix of the key                    | value in the store    | in the changelog          |
|-------------|--------------------------------------|-----------------------|---------------------------|
| plain       | none                                 | value                 | value                     |
| timestamped | none                                 | time (8) + value      | value, time of the record |
| of a table  | none                                 | time (8) + value      | value, time of the record |
| window      | start (8) + sequence (4)             | value                 | value                     |
| session     | end (8) + start (8)                  | value                 | value                     |
| timers      | none; see `key_timers`               | value                 | value                     |

Numbers are big endian, so they sort; the layouts of the keys are Kafka Streams'.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.errors import StateError
from tidegate.log.topic import LATEST_TIMESTAMP

_TIME = struct.Struct(">Q")
TIME_BYTES = _TIME.size
_WINDOW = struct.Struct(">QI")
_SESSION = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of a kind of store."""

    suffix: int = 0
    timestamped: bool = False

    def logged(self, value: bytes | None) -> bytes | None:
        """Return the changelog record's value for a stored value."""
        return value[TIME_BYTES:] if self.timestamped and value is not None else value

    def restored(self, value: bytes | None, timestamp: int) -> bytes | None:
        """Return the stored value for a changelog record."""
        return _TIME.pack(timestamp) + value if self.timestamped and value is not None else value


PLAIN = Format()
TIMESTAMPED = Format(timestamped=True)
WINDOW = Format(suffix=_WINDOW.size)
SESSION = Format(suffix=_SESSION.size)


KEY_VALUE, OF_TABLE = "key-value", "key-value with times"
"""A manifest calls both kinds the first; a folder's metadata calls named stores of tables and aggregates the
second."""

LAYOUTS = {
    KEY_VALUE: PLAIN,
    OF_TABLE: TIMESTAMPED,
    "in-memory": PLAIN,
    "lru": PLAIN,
    "timestamped": TIMESTAMPED,
    "window": WINDOW,
    "session": SESSION,
    "stream-timers": PLAIN,
    "wall-timers": PLAIN,
}


def with_time(value: bytes, timestamp: int) -> bytes:
    """Return the stored value of a timestamped row."""
    if not 0 <= timestamp <= LATEST_TIMESTAMP:
        checked_time(timestamp)
    return _TIME.pack(timestamp) + value


def time_of(stored: bytes) -> int:
    """Return the time in a timestamped row."""
    return int(_TIME.unpack_from(stored)[0])


def with_times(values: Sequence[bytes | None], timestamps: Sequence[int]) -> list[bytes | None]:
    """Return the stored values of many timestamped rows, whose times were checked."""
    packed = {time: _TIME.pack(time) for time in set(timestamps)}
    each = zip(values, timestamps, strict=True)
    return [None if value is None else packed[time] + value for value, time in each]


def times_of(stored: Sequence[bytes | None], missing: int) -> list[int]:
    """Return the times in many timestamped rows."""
    found = b"".join([data[:8] for data in stored if data is not None])
    times = iter(struct.unpack(f">{len(found) // 8}Q", found))
    return [missing if data is None else next(times) for data in stored]


def window_suffix(start: int, sequence: int = 0) -> bytes:
    return _WINDOW.pack(checked_time(start), sequence)


def window_start(key: bytes) -> int:
    """Return the window start in a row's key."""
    return int(_WINDOW.unpack_from(key, len(key) - _WINDOW.size)[0])


def session_suffix(end: int, start: int) -> bytes:
    return _SESSION.pack(checked_time(end), checked_time(start))


def session_times(key: bytes) -> tuple[int, int]:
    """Return the session's end and start in a row's key."""
    end, start = _SESSION.unpack_from(key, len(key) - _SESSION.size)
    return int(end), int(start)


def end_times(kind: str, window_size: int) -> Callable[[bytes], int]:
    """The function from the key of a row to the end of its window or session."""
    if kind == "session":
        return lambda key: session_times(key)[0]
    return lambda key: window_start(key) + window_size


def checked_time(timestamp: int) -> int:
    """Return the time; raise StateError if a store cannot hold it."""
    if not 0 <= timestamp <= LATEST_TIMESTAMP:
        raise StateError(
            "bad-timestamp",
            f"a store cannot hold the time {timestamp}",
            "use milliseconds since 1970, up to the year 9999",
        )
    return timestamp
