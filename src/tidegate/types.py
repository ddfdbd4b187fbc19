"""The plain types that all layers use."""

from __future__ import annotations

from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
Partition = NewType("Partition", int)
Epoch = NewType("Epoch", int)
Millis = NewType("Millis", int)


class TopicPartition(NamedTuple):
    """One partition of one topic: the unit of order in the log."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"
