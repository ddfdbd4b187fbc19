"""Cache the changes of the current commit interval in memory, over the store's rows.

It provides read-your-writes, and folds several writes of a key into one changelog record and one row. The
changes of a record that fails are undone: while a record is processed, each change keeps what it replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidegate.errors import StateError
from tidegate.state.keys import Bound
from tidegate.state.memory import SortedKeys, splitter
from tidegate.state.protocol import BytesStore

RowChange = tuple[bytes | None, int]
"""The new value of a key (None deletes it) and the timestamp of its changelog record. A plain tuple, because
one is created for each write."""


class CachedStore:
    """A bytes store whose writes are held back until the commit applies them."""

    def __init__(self, inner: BytesStore, suffix: int = 0) -> None:
        self.inner = inner
        self._inner_get = inner.get
        self._changes: dict[bytes, RowChange] = {}
        self._keys = SortedKeys(suffix)
        self._split = splitter(suffix)
        self._undo: list[tuple[bytes, RowChange | None]] | None = None
        self._before: dict[bytes, RowChange] | None = None
        self._writes = 0
        self.bytes = 0
        self.largest = 1 << 62

    def get(self, key: bytes) -> bytes | None:
        change = self._changes.get(key)
        return self._inner_get(key) if change is None else change[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        changes = self._changes
        if not changes:
            return self.inner.get_many(keys)
        missing = [key for key in keys if key not in changes]
        found = iter(self.inner.get_many(missing) if missing else ())
        return [changes[key][0] if key in changes else next(found) for key in keys]

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Set a row; None deletes it."""
        size = len(key) if value is None else len(key) + len(value)
        if size > self.largest:
            raise self.too_large(size)
        changes = self._changes
        if self._undo is not None and self._before is None:
            self._undo.append((key, changes.get(key)))
        if self._keys.sorted and key not in changes:
            self._keys.added(key)
        changes[key] = (value, timestamp)
        self._writes += 1
        self.bytes += size

    def put_many(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        """Set the rows of different keys."""
        present = [value for value in values if value is not None]
        size = sum(map(len, keys)) + sum(map(len, present))
        if size > self.largest and max(map(len, keys)) + max(map(len, present), default=0) > self.largest:
            largest = max(len(key) + len(value or b"") for key, value in zip(keys, values, strict=True))
            if largest > self.largest:
                raise self.too_large(largest)
        changes = self._changes
        if self._undo is not None and self._before is None:
            self._before = dict(changes)
        changes.update(zip(keys, zip(values, timestamps, strict=True), strict=True))
        self._keys.changed()
        self._writes += 1
        self.bytes += size

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the store's rows with the changes applied. A write ends a running scan."""
        writes = self._writes
        keys = self._keys.between(self._changes, lower, upper)
        changed = [(key, self._changes[key][0]) for key in (reversed(keys) if reverse else keys)]
        for row in self._merged(changed, self.inner.scan(lower, upper, reverse=reverse), reverse=reverse):
            yield row
            if self._writes != writes:
                raise StateError(
                    "scan-ended",
                    "a scan was continued after a write to the store",
                    "collect the rows first, then write",
                )

    def changes(self) -> dict[bytes, RowChange]:
        """Return the changes since the last commit: for the changelog, then for `inner`."""
        return self._changes

    def damaged(self, what: str) -> StateError:
        """Return the error for inconsistent rows; a store on disk is marked to be rebuilt."""
        mark: Callable[[str], StateError] | None = getattr(self.inner, "damaged", None)
        return mark(what) if mark is not None else StateError("corrupt-state", what, "restore the store")

    def too_large(self, size: int) -> StateError:
        """Return the error for a row that the changelog would refuse."""
        return StateError(
            "row-too-large",
            f"a row has {size} bytes; the store's changelog takes at most {self.largest}",
            'store less in one row, or use with_changelog({"max.message.bytes": ...})',
        )

    def forget(self) -> None:
        """Drop the changes: they were applied, or are void."""
        self._changes = {}
        self._keys.changed()
        self._undo = self._before = None
        self._writes += 1
        self.bytes = 0

    def begin_record(self) -> None:
        """Start a record: changes from here on can be undone with `roll_back`."""
        self._undo, self._before = [], None

    def end_record(self) -> None:
        """End a record that succeeded: its changes stay."""
        self._undo = self._before = None

    def roll_back(self) -> None:
        """Undo the changes of a record that failed."""
        undo, self._undo = self._undo or [], None
        before, self._before = self._before, None
        if before is not None:
            self._changes = before
        for key, previous in reversed(undo):
            if previous is None:
                del self._changes[key]
            else:
                self._changes[key] = previous
        if undo or before is not None:
            self._keys.changed()
            self._writes += 1

    def _merged(
        self,
        changed: list[tuple[bytes, bytes | None]],
        rows: Iterator[tuple[bytes, bytes]],
        *,
        reverse: bool,
    ) -> Iterator[tuple[bytes, bytes]]:
        at = 0
        for key, value in rows:
            bound = self._split(key)
            while at < len(changed) and _comes_before(self._split(changed[at][0]), bound, reverse=reverse):
                if changed[at][1] is not None:
                    yield changed[at]  # type: ignore[misc]
                at += 1
            if at < len(changed) and changed[at][0] == key:
                if changed[at][1] is not None:
                    yield changed[at]  # type: ignore[misc]
                at += 1
            else:
                yield key, value
        for key, change in changed[at:]:
            if change is not None:
                yield key, change


def _comes_before(left: Bound, right: Bound, *, reverse: bool) -> bool:
    return left > right if reverse else left < right
