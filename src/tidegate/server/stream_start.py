"""The positions at which a stream of records begins."""

from __future__ import annotations

from tidegate.log.protocol import Log
from tidegate.server.errors import RequestError
from tidegate.server.position import from_text
from tidegate.types import Offset, TopicPartition


def stream_start(log: Log, topics: list[str], begin: str, at: str | None) -> dict[TopicPartition, Offset]:
    """Return the positions where a stream begins: `at` if it is given, else the start or the end. A partition
    that is missing in `at` was added later: it begins at its start."""
    infos = [log.describe(name) for name in dict.fromkeys(topics)]
    starts = {
        TopicPartition(info.name, n): Offset(start) for info in infos for n, start in enumerate(info.starts)
    }
    if at is not None:
        given = from_text(at)
        if not given or not given.keys() <= starts.keys():
            raise RequestError(
                "bad-position", "this position belongs to another stream", "leave it out to start from now"
            )
        return {**starts, **given}
    return starts if begin == "start" else log.ends(starts)
