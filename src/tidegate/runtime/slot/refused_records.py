"""Records that the log itself refused, though they passed every check.

A broker refuses a whole transaction and does not report for which record. So the slot reopens and puts fewer
and fewer records into a transaction, and timers into others, until a refused transaction holds a single
record. That record meets its error policy when the slot reopens once more, as if a step had failed on it.
After the records of the first refusal the slot runs normally again.

    normal ── refused ──> limited ── refused, one record ──> known ── passed ──> normal
                           │     ^
                           └─────┘ refused, several records: a tenth as many
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.errors import LogError
from tidegate.runtime.output.on_error import RecordPosition, caused_by_record
from tidegate.types import TopicPartition

NARROWING_FACTOR = 10


class ReopenSlot(Exception):  # noqa: N818 - not a failure: the slot continues
    """The slot must be reopened; its `Refusals` determine how it continues."""

    def __init__(self, why: LogError) -> None:
        super().__init__(why)
        self.why = why


class RefusedTask(Protocol):
    """The part of a task that is needed after its transaction was refused."""

    @property
    def taken(self) -> int:
        """Records since the last commit."""
        ...

    @property
    def last(self) -> RecordPosition | None:
        """The last of them."""
        ...

    @property
    def next(self) -> Mapping[TopicPartition, int]:
        """The next offset of each source partition, after them."""
        ...


@dataclass(slots=True)
class Refusals:
    """The refused records of one slot, kept across reopenings."""

    known: dict[RecordPosition, LogError] = field(default_factory=dict)
    """Records that were refused in a transaction of their own, and why."""
    limit: int | None = None
    """How many records a transaction may have; None for no limit."""
    _until: dict[TopicPartition, int] = field(default_factory=dict)

    def add(self, error: LogError, tasks: Iterable[RefusedTask]) -> bool:
        """Add a refused transaction. Returns whether a retry with fewer records helps. It does not if no
        record was taken (a timer sent the output), if the dead letter of a known record is refused too, or if
        there are no fewer records to take."""
        taking = [task for task in tasks if task.taken]
        count = sum(task.taken for task in taking)
        if not caused_by_record(error) or not count or (count > 1 and self.limit == 1):
            return False
        if count > 1:
            self.limit = max(1, min(count, self.limit or count) // NARROWING_FACTOR)
            for task in taking:
                self._until |= task.next
            return True
        [task] = taking
        if task.last is None or task.last in self.known:
            return False
        self.known[task.last] = error
        self.limit = 1
        self._until |= task.next
        return True

    def passed(self, committed: Mapping[TopicPartition, int]) -> None:
        """Called with the committed offsets: lift the limit once all refused records are behind them."""
        self._until = {one: end for one, end in self._until.items() if committed.get(one, 0) < end}
        if not self._until:
            self.limit = None
            self.known.clear()
