"""The records of a batch by key, and what counting them changes.

In a replay only the last row of each key is written. So what is needed for each record, such as its index in
its group, which takes a sort, is computed when it is first used.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_keys
from tidegate.runtime.batches.columns import Changes


class Groups:
    """The groups of a batch, ordered by their first records: for each group its size and its last record; for
    each record its group and its index in it, both from 0."""

    def __init__(self, numbers: pa.Array[Any], keys: int) -> None:
        """`numbers` is the number of each record's key, below `keys`."""
        counted: Any = pc.value_counts(numbers)  # ordered by the first occurrence
        self.keys: pa.Array[Any] = counted.field("values")
        """The number of each group's key."""
        self.sizes: pa.Array[Any] = counted.field("counts")
        self.last = last_of_keys(numbers, keys).take(self.keys)
        self.numbers = numbers

    @cached_property
    def group(self) -> pa.Array[Any]:
        encoded: Any = self.numbers.dictionary_encode()
        return encoded.indices

    @cached_property
    def order(self) -> pa.Array[Any]:
        """The records of the first group, then those of the second, and so on. The sort is stable: a group
        keeps its order."""
        return pc.sort_indices(self.group).cast(pa.int64())

    @cached_property
    def back(self) -> pa.Array[Any]:
        """For each record its index in `order`."""
        found: pa.Array[Any] = pc.inverse_permutation(self.order)
        return found

    @cached_property
    def starts(self) -> pa.Array[Any]:
        """For each group the index of its first record in `order`."""
        found: pa.Array[Any] = pc.subtract(pc.cumulative_sum(self.sizes), self.sizes)
        return found

    @cached_property
    def index(self) -> pa.Array[Any]:
        found: pa.Array[Any] = pc.subtract(self.back, self.starts.take(self.group))
        return found


class Counted(Changes):
    """The changes that counting the records of each group makes to rows of these counts."""

    def __init__(self, before: pa.Array[Any], groups: Groups) -> None:
        """A count is null if its group has no row yet."""
        self._before, self.groups = before, groups
        self._start: Any = pc.fill_null(before, 0)
        self.newest: pa.Array[Any] = pc.add(self._start, groups.sizes)
        """The last count of each group."""
        self.last = groups.last
        """The last record of each group."""

    @cached_property
    def new(self) -> pa.Array[Any]:  # type: ignore[override]
        found: Any = pc.add(pc.add(self._start.take(self.groups.group), self.groups.index), 1)
        return found

    @cached_property
    def old(self) -> pa.Array[Any]:  # type: ignore[override]
        return replaced(self._before, self.groups, pc.subtract(self.new, 1))


def replaced(before: pa.Array[Any], groups: Groups, old: pa.Array[Any]) -> pa.Array[Any]:
    """Return the numbers that records replace: null for the first record of a key that had no row."""
    if not before.null_count:
        return old
    fresh = pc.and_(pc.equal(groups.index, 0), pc.is_null(before).take(groups.group))
    found: pa.Array[Any] = pc.if_else(fresh, pa.scalar(None, pa.int64()), old)
    return found
