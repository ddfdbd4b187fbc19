"""Positions as text that a client sends back unchanged: `orders-totals-changelog:0=12,3=44;...`.

In responses: the next offsets up to which the rows are the fold of the topics. In `at_least`: the position
that a response must have reached. In the ids of events: where a stream continues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.errors import ConfigError
from tidegate.types import Offset, TopicPartition

LONGEST = 200 << 10
"""The longest that fits into the headers of a request."""
_PART = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249}):(?P<offsets>[0-9]{1,5}=[0-9]{1,18}(,[0-9]{1,5}=[0-9]{1,18})*)"
)


def to_text(positions: Mapping[TopicPartition, int]) -> str:
    """The positions, by topic and partition."""
    topics: dict[str, list[str]] = {}
    for (topic, number), offset in sorted(positions.items()):
        topics.setdefault(topic, []).append(f"{number}={offset}")
    return ";".join(f"{topic}:{','.join(offsets)}" for topic, offsets in topics.items())


def from_text(text: str) -> dict[TopicPartition, Offset]:
    """Parse what `to_text` wrote; raises ConfigError `bad-position`."""
    if len(text) > LONGEST:
        raise _bad()
    found: dict[TopicPartition, Offset] = {}
    for part in text.split(";") if text else []:
        match = _PART.fullmatch(part)
        if match is None:
            raise _bad()
        for pair in match["offsets"].split(","):
            number, offset = pair.split("=")
            found[TopicPartition(match["topic"], int(number))] = Offset(int(offset))
    return found


def _bad() -> ConfigError:
    return ConfigError("bad-position", "this is not a position", "send the position of a response unchanged")
