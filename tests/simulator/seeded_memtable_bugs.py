"""Bugs of the memtable that somebody could write; as in `seeded_bugs.py`, each must be noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegate.state.keys import Bound
from tidegate.state.manager import StateManager
from tidegate.state.memtable import Memtable

Patch = pytest.MonkeyPatch

_get = Memtable.get
_write = Memtable.write
_persist_now = StateManager.persist_now


def row_lost_at_step_7(patch: Patch) -> None:
    def wrong(self: Memtable) -> None:
        if len(self._waiting) > 1:
            self._waiting.popitem()
        _write(self)

    patch.setattr(Memtable, "write", wrong)


def deletes_not_written(patch: Patch) -> None:
    def wrong(self: Memtable) -> None:
        self._waiting = {key: row for key, row in self._waiting.items() if row is not None}
        _write(self)

    patch.setattr(Memtable, "write", wrong)


def deleted_row_read_from_lmdb(patch: Patch) -> None:
    def wrong(self: Memtable, key: bytes) -> bytes | None:
        return self._waiting.get(key) or self._recent.get(key) or self.below.get(key)

    patch.setattr(Memtable, "get", wrong)


def range_misses_waiting_rows(patch: Patch) -> None:
    def wrong(
        self: Memtable, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.below.scan(lower, upper, reverse=reverse)

    patch.setattr(Memtable, "scan", wrong)


def offsets_on_disk_before_their_rows(patch: Patch) -> None:
    """The next restore starts above what LMDB has."""

    def wrong(self: StateManager) -> None:
        memtables, self._memtables = self._memtables, []
        _persist_now(self)
        self._memtables = memtables

    patch.setattr(StateManager, "persist_now", wrong)


def waiting_rows_age(patch: Patch) -> None:
    """Rows that wait are forgotten with the others, and LMDB answers with what it had before."""

    def wrong(self: Memtable) -> None:
        self._older, self._recent, self._waiting = {}, {}, {}

    patch.setattr(Memtable, "age", wrong)


def older_rows_of_earlier_ages_stay(patch: Patch) -> None:
    def wrong(self: Memtable) -> None:
        self._older, self._recent = {**self._recent, **self._older}, {}

    patch.setattr(Memtable, "age", wrong)


def read_rows_hide_written_ones(patch: Patch) -> None:
    """What was read before a row was written is found first."""

    def wrong(self: Memtable, key: bytes) -> bytes | None:
        return self._recent[key] if key in self._recent else _get(self, key)

    patch.setattr(Memtable, "get", wrong)


def memtable_survives_a_drop(patch: Patch) -> None:
    """What waits is committed on disk by whoever fails, before it is known whether it counts."""
    right = StateManager.drop

    def wrong(self: StateManager) -> None:
        for built in self._built.values():
            if isinstance(built.inner, Memtable) and self._environment is not None:
                built.inner.apply([(key, change[0]) for key, change in built.cached.changes().items()])
        if self._environment is not None and self._memtables:
            _persist_now(self)
        right(self)

    patch.setattr(StateManager, "drop", wrong)


SEEDED_IN_THE_MEMTABLE: dict[str, Callable[[Any], None]] = {
    "a row is lost at step 7": row_lost_at_step_7,
    "deletes are not written at step 7": deletes_not_written,
    "a deleted row comes back from LMDB": deleted_row_read_from_lmdb,
    "a range misses rows of the memtable": range_misses_waiting_rows,
    "offsets are on disk before their rows": offsets_on_disk_before_their_rows,
    "waiting rows are forgotten": waiting_rows_age,
    "older rows hide newer ones": older_rows_of_earlier_ages_stay,
    "rows that were read hide those that wait": read_rows_hide_written_ones,
    "the memtable survives a drop": memtable_survives_a_drop,
}
