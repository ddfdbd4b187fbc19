"""What a step reads from, in both versions of an app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tidegate.changes.changes import ChangeKind, Reason
from tidegate.topology.manifest import NodeEntry

T = TypeVar("T")
Pair = tuple[int | None, int | None]


class Lineage:
    """The inputs of matched steps. Steps that are new or gone are skipped: they are reported themselves."""

    def __init__(
        self, before: Sequence[NodeEntry], after: Sequence[NodeEntry], pairs: Iterable[Pair]
    ) -> None:
        self._before = before
        self._after = after
        self._after_of = {old: new for old, new in pairs if old is not None and new is not None}
        self._matched = set(self._after_of.values())

    def rewired(self, old: int, new: int) -> Reason | None:
        """Return a reason if a step reads from other steps than before."""
        was = [self._after_of[number] for number in self._nearest(self._before, old, self._after_of)[0]]
        is_ = self._nearest(self._after, new, self._matched)[0]
        if was == is_:
            return None
        said = f"it reads from {self._listed(is_)}, read from {self._listed(was)}"
        if set(was) == set(is_):
            said = f"it reads from {self._listed(is_)} in another order"
        return Reason(
            said, [ChangeKind.LOGIC], before=self._before[old].location, after=self._after[new].location
        )

    def gone_above(self, old: int) -> list[NodeEntry]:
        """Return the steps that are gone between a step and its nearest inputs that are not."""
        passed = self._nearest(self._before, old, self._after_of)[1]
        return [self._before[number] for number in passed]

    def first_above(self, number: int, marked: Mapping[int, T]) -> list[T]:
        """Return the marks of the nearest steps of the newer version that have one, on each path upwards."""
        found: dict[int, T] = {}
        seen: set[int] = set()
        waiting = list(self._after[number].parents)
        while waiting:
            one = waiting.pop(0)
            if one in seen:
                continue
            seen.add(one)
            if one in marked:
                found[one] = marked[one]
            else:
                waiting += self._after[one].parents
        return list(found.values())

    def _nearest(
        self, nodes: Sequence[NodeEntry], number: int, ends: Mapping[int, int] | set[int]
    ) -> tuple[list[int], list[int]]:
        """Return the nearest inputs that both versions have, and the steps that were passed over."""
        found: dict[int, None] = {}
        passed: dict[int, None] = {}
        waiting = list(nodes[number].parents)
        while waiting:
            one = waiting.pop(0)
            if one in ends:
                found[one] = None
            elif one not in passed:
                passed[one] = None
                waiting = [*nodes[one].parents, *waiting]
        return list(found), list(passed)

    def _listed(self, numbers: Iterable[int]) -> str:
        return ", ".join(self._after[number].label for number in numbers) or "nothing"
