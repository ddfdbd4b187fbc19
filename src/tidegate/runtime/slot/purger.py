"""Purge internal topics up to the positions of their readers.

This only frees space, so an error of the log does not stop the slot.
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

    def run(self, purgeable: Mapping[TopicPartition, Offset]) -> list[LogError]:
        """Purge. Returns problems that were not reported yet: one of each kind per topic. Refused partitions
        are tried again in the next run. After a partition that the log did not answer for, the others wait
        for the next run."""
        problems = []
        for partition, before in purgeable.items():
            if before <= self._done.get(partition, 0):
                continue
            try:
                self._log.purge(partition, before)
            except LogError as error:
                kind = (partition.topic, error.code)
                if kind not in self._reported:
                    self._reported.add(kind)
                    problems.append(_not_purged(partition, error))
                if error.retryable:
                    break
            else:
                self._done[partition] = before
        return problems


def _not_purged(partition: TopicPartition, error: LogError) -> LogError:
    hint = f"{error.hint}; the app continues" if error.hint else "the app continues"
    message = f"topic {partition.topic!r} grows: {error.message}"
    return LogError(error.code, message, hint, retryable=error.retryable)
