"""The current time of a store: the timestamp of the current record, and the stream time of its task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreTime:
    """Set by the task before each record; read by its stores."""

    timestamp: int = 0
    stream_time: int = -1
