"""A log whose end shows late.

The embedded log never lags: what is committed is seen. A broker's does, for a moment after a commit, or while
another writer's open transaction stands in front. This is the embedded log with that habit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.compute as pc

from tidegate.log.protocol import Fetched
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.types import Offset, TopicPartition


class LaggingLog(SqliteLog):
    """Hides the records of a partition from an offset on, until it was polled some times."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._hidden: dict[TopicPartition, int] = {}
        self._polls = 0

    def hide(self, partition: TopicPartition, above: int, polls: int) -> None:
        self._hidden[partition] = above
        self._polls = polls

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        ends = super().ends(partitions, committed=committed)
        return {one: min(end, self.visible(one)) for one, end in ends.items()} if committed else ends

    def reader(
        self,
        positions: Mapping[TopicPartition, Offset],
        *,
        brief: bool = False,  # noqa: ARG002
    ) -> LaggingReader:
        return LaggingReader(self, positions)

    def visible(self, partition: TopicPartition) -> Offset:
        """Up to where a committed reader gets."""
        return Offset(self._hidden.get(partition, 1 << 62) if self._polls > 0 else 1 << 62)

    def polled(self) -> None:
        self._polls -= 1


class LaggingReader(SqliteReader):
    """Returns what is visible, and comes back for the rest."""

    def __init__(self, log: LaggingLog, positions: Mapping[TopicPartition, Offset]) -> None:
        super().__init__(log._database, log._catalog, positions)
        self._log = log

    def poll(self, timeout: float) -> list[Fetched]:
        before = dict(self._positions)
        fetched = [self._cut(one) for one in super().poll(timeout)]
        self._log.polled()
        return [one for one in fetched if one.next > before[one.partition]]

    def _cut(self, fetched: Fetched) -> Fetched:
        visible = self._log.visible(fetched.partition)
        if fetched.next <= visible:
            return fetched
        self.seek(fetched.partition, visible)
        seen = fetched.batch.filter(pc.less(fetched.batch.column(0), visible))
        return Fetched(fetched.partition, seen, visible)
