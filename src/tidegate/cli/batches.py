"""Send many records of a command in few commits."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.clock import SystemClock
from tidegate.errors import LogError, TidegateError
from tidegate.log.checks import check_batch
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.route import Router
from tidegate.log.topic import TopicInfo
from tidegate.types import TopicPartition


class Outgoing(NamedTuple):
    """A record to send, with its partition and line of input, if any."""

    row: Row
    partition: int | None = None
    line: int | None = None


class Batches:
    """Appends records to one topic, one commit per partition and call, and counts them."""

    def __init__(self, log: Log, info: TopicInfo) -> None:
        self._log = log
        self._info = info
        self._router = Router(log)
        self._clock = SystemClock()
        self.sent = 0
        self.offsets: dict[int, int] = {}
        """The last offset of each partition."""

    def send(self, outgoing: list[Outgoing]) -> None:
        """Append the records in order. If the topic refuses one, those before it are sent."""
        routed = [(self._router.route(self._info, each.row.key, each.partition), each) for each in outgoing]
        refused = self._first_refused(routed)
        accepted = routed if refused is None else routed[: refused[0]]
        for partition, rows in _by_partition(accepted).items():
            self.offsets[partition.partition] = self._append(partition, rows)
            self.sent += len(rows)
        if refused is not None:
            index, error = refused
            raise self.at_line(outgoing[index].line, error) from error

    def _append(self, partition: TopicPartition, rows: list[Row]) -> int:
        """Append all of them or none; an error reports how many were sent before."""
        try:
            return self._log.append(partition, to_batch(rows))
        except LogError as error:
            error.message += f"; {self.sent:,} records were sent before these {len(rows):,}"
            raise

    def at_line(self, line: int | None, error: TidegateError) -> TidegateError:
        """The error with the line of input and the number of records sent before it."""
        if line is None:
            return error
        message = f"line {line}: {error.message}; {self.sent:,} records before it were sent"
        return TidegateError(error.code, message, error.hint, retryable=error.retryable)

    def _first_refused(self, routed: list[tuple[TopicPartition, Outgoing]]) -> tuple[int, LogError] | None:
        """Find the first record that the topic refuses. All are checked at once first: one by one is slow."""
        now = self._clock.now()
        try:
            for partition, rows in _by_partition(routed).items():
                check_batch(self._info, partition.partition, to_batch(rows), now)
        except LogError:
            for index, (partition, each) in enumerate(routed):
                try:
                    check_batch(self._info, partition.partition, to_batch([each.row]), now)
                except LogError as error:
                    return index, error
            raise
        return None


def _by_partition(routed: list[tuple[TopicPartition, Outgoing]]) -> dict[TopicPartition, list[Row]]:
    grouped: dict[TopicPartition, list[Row]] = {}
    for partition, each in routed:
        grouped.setdefault(partition, []).append(each.row)
    return grouped
