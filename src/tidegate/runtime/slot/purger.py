"""Dropping what lies behind the readers of internal topics.

Nothing depends on it but the space that it frees, so a log that refuses or does not answer stops nobody.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import LogError
from tidegate.log.protocol import Log
from tidegate.types import Offset, TopicPartition


class Purger:
    """Purges partitions up to given offsets, each offset once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._done: dict[TopicPartition, int] = {}
        self._reported: set[tuple[str, str]] = set()

    def run(self, behind: Mapping[TopicPartition, Offset]) -> list[LogError]:
        """Problems that were not reported yet: one of each kind for a topic. What was refused is tried again
        in the next run; after one partition that nobody answered for, the others wait for it."""
        problems = []
        for partition, before in behind.items():
            if before <= self._done.get(partition, 0):
                continue
            try:
                self._log.purge(partition, before)
            except LogError as error:
                kind = (partition.topic, error.code)
                if kind not in self._reported:
                    self._reported.add(kind)
                    problems.append(_growing(partition, error))
                if error.retryable:
                    break
            else:
                self._done[partition] = before
        return problems


def _growing(partition: TopicPartition, error: LogError) -> LogError:
    hint = f"{error.hint}; the app goes on meanwhile" if error.hint else "the app goes on meanwhile"
    message = f"topic {partition.topic!r} grows: {error.message}"
    return LogError(error.code, message, hint, retryable=error.retryable)
