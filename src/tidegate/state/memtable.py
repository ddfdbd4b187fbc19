"""The memtable: committed rows that wait in memory, above a store's rows in LMDB.

A row that is committed in the log may be written to LMDB seconds later, so that a key that changes in many
commits is written once, and a key that is used often is not read again. Rows that were read stay beside them.

    cache       the changes of this commit interval             CachedStore
    memtable    committed in the log; recently written or read  here
    LMDB        written in the open transaction; on disk with the next step 7

The log is the truth: what is only here is lost with the process, and restored from the changelog. Before a
scan the waiting rows are written to the open transaction, so that LMDB alone knows the order of keys. What is
there is on disk only when step 7 commits it, together with all other rows and the position they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.errors import StateError
from tidegate.state.keys import Bound
from tidegate.state.lmdb_store import LmdbStore
from tidegate.state.protocol import RawRow, Token

ROW_BYTES = 200
"""About what Python needs for a row in memory beside its bytes."""

_UNKNOWN: Any = object()


class MemtableBudget:
    """The memory that the memtables of a slot share. Who uses more rows has more of it.

    Rows that do not wait are kept in two ages. When the recent ones and those that wait fill half of the
    budget, the recent ones become the older ones of their store, and the older ones before them are dropped.
    An older row that is used is recent again.
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._memtables: list[Memtable] = []
        self._used = 0

    @property
    def used(self) -> int:
        """About how many bytes the waiting and the recent rows take."""
        return self._used

    def join(self, memtable: Memtable) -> None:
        self._memtables.append(memtable)

    def leave(self, memtable: Memtable) -> None:
        self._memtables.remove(memtable)
        self._used = sum(one.recent_bytes() for one in self._memtables)

    def take(self, size: int) -> None:
        """Count `size` more bytes of waiting or recent rows."""
        self._used += size
        if self._used > self._half:
            self._age()

    def _age(self) -> None:
        """Age the rows of all memtables. Waiting rows must stay; if they alone take half of the room, they
        are written to the open transactions first."""
        if sum(one.waiting_memory() for one in self._memtables) > self._half // 2:
            for one in self._memtables:
                one.write()
        for one in self._memtables:
            one.age()
        self._used = sum(one.recent_bytes() for one in self._memtables)


class Memtable:
    """A bytes store over the rows of one store in LMDB."""

    def __init__(self, below: LmdbStore, budget: MemtableBudget) -> None:
        self.below = below
        self._budget = budget
        self._waiting: dict[bytes, bytes | None] = {}
        """The rows that LMDB does not have yet; None deletes. They are newer than those below."""
        self._recent: dict[bytes, bytes | None] = {}
        """Rows that were used lately; None for a key that is known to have no row."""
        self._older: dict[bytes, bytes | None] = {}
        self.waiting_bytes = 0
        """At least as many bytes as `write` will write: a row that is replaced counts again."""
        budget.join(self)

    def get(self, key: bytes) -> bytes | None:
        row: bytes | None = self._waiting.get(key, _UNKNOWN)
        if row is _UNKNOWN:
            row = self._recent.get(key, _UNKNOWN)
        return self._get_older(key) if row is _UNKNOWN else row

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        waiting, recent = self._waiting, self._recent
        try:
            return [waiting[key] for key in keys]
        except KeyError:
            pass
        try:
            return [waiting[key] if key in waiting else recent[key] for key in keys]
        except KeyError:
            pass
        older, missing = self._older, [key for key in keys if key not in waiting and key not in recent]
        again = {key: older[key] for key in missing if key in older}
        unknown = [key for key in dict.fromkeys(missing) if key not in again]
        found = again | dict(zip(unknown, self.below.get_many(unknown), strict=True))
        recent.update(found)
        rows = [waiting[key] if key in waiting else recent[key] for key in keys]
        self._budget.take(_size(found) + ROW_BYTES * len(found))
        return rows

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self.write()
        return self.below.scan(lower, upper, reverse=reverse)

    def apply(self, rows: Iterable[RawRow], token: Token | None = None) -> None:  # noqa: ARG002
        self.take_over(dict(rows))

    def take_over(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Step 6: take over rows that are committed in the log. The bytes of a row that is replaced count
        until the rows are written: finding them out would cost more than it saves."""
        size, before = _size(rows), len(self._waiting)
        self._waiting.update(rows)
        self.waiting_bytes += size
        self._budget.take(size + ROW_BYTES * (len(self._waiting) - before))

    def clear(self) -> None:
        self._recent, self._older, self._waiting = {}, {}, {}
        self.waiting_bytes = 0
        self.below.clear()

    def ended(self, before: int, limit: int) -> list[bytes]:
        """Return keys of rows that end before a time, earliest first, at most `limit`."""
        self.write()
        return self.below.ended(before, limit)

    def damaged(self, what: str) -> StateError:
        """Return the error for inconsistent rows, and mark the folder to be rebuilt from the log."""
        return self.below.damaged(what)

    def waiting(self) -> Mapping[bytes, bytes | None]:
        """Return the rows that LMDB does not have yet; None deletes."""
        return self._waiting

    def write(self) -> None:
        """Write the waiting rows to LMDB's open transaction. The manager made room for them in step 6."""
        if self._waiting:
            rows, self._waiting = self._waiting, {}
            self.waiting_bytes = 0
            self.below.apply(rows.items())
            self._recent.update(rows)

    def leave(self) -> None:
        """Give up the share of the budget. Rows that wait are dropped."""
        self._budget.leave(self)

    # --- used by the budget ---------------------------------------------------------------------------

    def recent_bytes(self) -> int:
        """About how many bytes all rows take that are not older ones."""
        return self.waiting_memory() + _size(self._recent) + ROW_BYTES * len(self._recent)

    def waiting_memory(self) -> int:
        return self.waiting_bytes + ROW_BYTES * len(self._waiting)

    def age(self) -> None:
        """Make the recent rows older ones, and drop those that were older before; waiting rows stay."""
        self._older, self._recent = self._recent, {}

    def _get_older(self, key: bytes) -> bytes | None:
        row: bytes | None = self._older.get(key, _UNKNOWN)
        if row is _UNKNOWN:
            row = self.below.get(key)
        self._recent[key] = row
        self._budget.take(len(key) + len(row or b"") + ROW_BYTES)
        return row


def _size(rows: Mapping[bytes, bytes | None]) -> int:
    return sum(map(len, rows)) + sum(map(len, filter(None, rows.values())))
