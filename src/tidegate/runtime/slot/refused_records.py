"""Records that the log itself refused, though they had passed every check: what a slot remembers of them.

A broker refuses a whole transaction and does not say for which record. So the slot opens anew and goes on
with care: fewer and fewer records in a transaction, and timers in others, until one that is refused holds a
single record. That one meets its policy when the slot opens once more, as if a step had failed on it. Behind
the records of the first refusal the slot goes on as ever.

    as ever ── refused ──> with care ── refused, one record ──> known ── passed ──> as ever
                            │     ^
                            └─────┘ refused, several: a tenth as many
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.errors import LogError
from tidegate.runtime.output.on_error import Place, by_the_record
from tidegate.types import TopicPartition

NARROWER = 10


class ReopenSlot(Exception):  # noqa: N818 - no failure: the slot goes on
    """The slot has to be opened anew; what it remembers says how it goes on."""

    def __init__(self, why: LogError) -> None:
        super().__init__(why)
        self.why = why


class RefusedTask(Protocol):
    """What is asked of a task whose transaction was refused."""

    @property
    def taken(self) -> int:
        """Records since the last commit."""
        ...

    @property
    def last(self) -> Place | None:
        """The last of them."""
        ...

    @property
    def next(self) -> Mapping[TopicPartition, int]:
        """The offsets behind them."""
        ...


@dataclass(slots=True)
class Refusals:
    """Of one slot, over its dirty closes."""

    known: dict[Place, LogError] = field(default_factory=dict)
    """Records that were refused in a transaction of their own, and why."""
    limit: int | None = None
    """How many records a transaction may have; None: as ever."""
    _until: dict[TopicPartition, int] = field(default_factory=dict)

    def note(self, error: LogError, tasks: Iterable[RefusedTask]) -> bool:
        """A transaction was refused: whether it helps to go on with care. It does not where no record was
        taken (a timer sent it), where what stands for a known one is refused too, or where there are no fewer
        records to be taken."""
        taking = [task for task in tasks if task.taken]
        count = sum(task.taken for task in taking)
        if not by_the_record(error) or not count or (count > 1 and self.limit == 1):
            return False
        if count > 1:
            self.limit = max(1, min(count, self.limit or count) // NARROWER)
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
        """So far everything is committed."""
        self._until = {one: end for one, end in self._until.items() if committed.get(one, 0) < end}
        if not self._until:
            self.limit = None
            self.known.clear()
