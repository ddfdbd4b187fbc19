"""A store's rows in one LMDB database of the task's environment.

LMDB has no checksums. Each value is followed by a checksum over its key and its bytes, so that a damaged row
causes an error and never returns another value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import lmdb

from tidegate.errors import StateError
from tidegate.state.environment import INTACT, translated, translated_errors
from tidegate.state.expiry import EndOf
from tidegate.state.keys import (
    LONG_FROM,
    TERMINATOR,
    Bound,
    first_from,
    group_of,
    last_below,
    split_stored,
    stored_key,
)
from tidegate.state.protocol import RawRow, Token

_LENGTH = struct.Struct(">I")
_KEY = itemgetter(0)
"""Keys differ, so this is the order of the whole rows, found in half the time."""


class Transaction(Protocol):
    """What a store needs from its environment."""

    @property
    def folder(self) -> Path: ...

    @property
    def scan_version(self) -> int: ...

    @property
    def txn(self) -> Any: ...

    def database(self, name: str) -> Any: ...

    def touched(self, size: int) -> None: ...

    def damaged(self) -> str:
        """Record that a row is damaged, and return the hint for the error."""
        ...


class LmdbStore:
    """A bytes store on LMDB. With `end_of` a second database indexes the rows by their end time."""

    def __init__(
        self, environment: Transaction, name: str, suffix: int = 0, end_of: EndOf | None = None
    ) -> None:
        self._environment = environment
        self._name = name
        self._suffix = suffix
        self._stored = _encoder(suffix)
        self._longest_short = LONG_FROM + len(TERMINATOR) + suffix
        self._end_of = end_of
        self._database = environment.database(name)
        self._ends = environment.database(ends_database(name)) if end_of else None

    def get(self, key: bytes) -> bytes | None:
        stored = self._stored(key)
        try:
            sealed: bytes | None = self._environment.txn.get(stored, None, self._database)
        except lmdb.Error as error:
            raise self._unreadable(error) from error
        if sealed is None:
            return None
        if crc32(stored + sealed) != INTACT:
            raise self._damaged()
        value = sealed[:-4]
        return value if len(stored) <= self._longest_short else _unpack(value)[1]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        stored = self._all_stored(keys)
        try:
            in_order = sorted(stored)  # neighbours are on the same page
            found = dict(self._environment.txn.cursor(db=self._database).getmulti(in_order))
        except lmdb.Error as error:
            raise self._unreadable(error) from error
        if set(map(crc32, map(b"".join, found.items()))) - {INTACT}:
            raise self._damaged()
        if len(found) == len(stored) and max(map(len, stored), default=0) <= self._longest_short:
            return [found[at][:-4] for at in stored]
        return [None if at not in found else self._value(at, found[at][:-4]) for at in stored]

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for group, rows in groupby(self._stored_rows(lower, upper, reverse=reverse), key=_group):
            if group is None:
                for stored, sealed in rows:
                    parts = split_stored(stored)
                    assert parts is not None  # noqa: S101 - rows of no group have short keys
                    yield parts[0] + parts[1], self._unsealed(stored, sealed)
            else:
                yield from self._sorted(list(rows), lower, upper, reverse=reverse)

    def apply(self, rows: Iterable[RawRow], token: Token | None = None) -> None:  # noqa: ARG002
        newest = dict(rows)
        puts, deletes = self._sealed(newest)
        puts.sort(key=_KEY)
        size = sum(map(len, chain.from_iterable(puts))) + 16 * len(puts)
        with translated_errors(self._environment.folder, self._environment.damaged):
            txn = self._environment.txn
            txn.cursor(db=self._database).putmulti(puts)
            for stored in deletes:
                txn.delete(stored, db=self._database)
            if self._end_of is not None:
                self._index(newest)
        self._environment.touched(size)

    def _sealed(self, newest: dict[bytes, bytes | None]) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the rows to put, with their checksums, and the keys to delete."""
        all_stored, limit = self._all_stored(list(newest)), self._longest_short
        values: Any = newest.values()
        if None not in values and max(map(len, all_stored), default=0) <= limit:
            return [
                (stored, value + crc32(stored + value).to_bytes(4, "little"))
                for stored, value in zip(all_stored, values, strict=True)
            ], []
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        for stored, (key, value) in zip(all_stored, newest.items(), strict=True):
            if value is None:
                deletes.append(stored)
                continue
            whole = value if len(stored) <= limit else _pack(key[: len(key) - self._suffix], value)
            puts.append((stored, whole + crc32(stored + whole).to_bytes(4, "little")))
        return puts, deletes

    def clear(self) -> None:
        with translated_errors(self._environment.folder, self._environment.damaged):
            self._environment.txn.drop(self._database, delete=False)
            if self._ends is not None:
                self._environment.txn.drop(self._ends, delete=False)
        self._environment.touched(0)

    def ended(self, before: int, limit: int) -> list[bytes]:
        """Return keys of rows that end before a time, earliest first, at most `limit`."""
        assert self._end_of is not None  # noqa: S101 - only called for windows and sessions
        found: list[bytes] = []
        try:
            cursor = self._environment.txn.cursor(db=self._ends)
            for at, key in cursor.iternext() if cursor.first() else ():
                if int.from_bytes(at[:8], "big") >= before or len(found) >= limit:
                    break
                if len(key) < self._suffix or at != self._end_key(key):
                    raise self._damaged()
                found.append(key)
        except lmdb.Error as error:
            raise self._unreadable(error) from error
        except (OverflowError, struct.error) as error:  # a damaged key has an impossible end time
            raise self._damaged() from error
        return found

    def damaged(self, what: str) -> StateError:
        """Return the error for inconsistent rows, and mark the folder to be rebuilt from the log."""
        return StateError("corrupt-state", what, self._environment.damaged())

    def _end_key(self, key: bytes) -> bytes:
        assert self._end_of is not None  # noqa: S101 - only called for windows and sessions
        return self._end_of(key).to_bytes(8, "big") + self._stored(key)

    def _index(self, rows: dict[bytes, bytes | None]) -> None:
        txn = self._environment.txn
        for key, value in rows.items():
            at = self._end_key(key)
            if value is None:
                txn.delete(at, db=self._ends)
            else:
                txn.put(at, key, db=self._ends)

    def _stored_rows(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield stored rows within the bounds, and perhaps a few more of a group of long keys."""
        try:
            yield from self._iterate(lower, upper, reverse=reverse)
        except lmdb.Error as error:
            raise self._unreadable(error) from error

    def _iterate(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        scan_version = self._environment.scan_version
        first = first_from(lower) if lower is not None else b"\x00"
        stop = last_below(upper) if upper is not None else None
        cursor = self._environment.txn.cursor(db=self._database)
        if reverse:
            found = cursor.set_range(stop) if stop is not None else False
            any_row = cursor.prev() if found else cursor.last()
            rows = cursor.iterprev() if any_row else iter(())
        else:
            rows = cursor.iternext() if cursor.set_range(first) else iter(())
        for stored, value in rows:
            if (stored < first) if reverse else (stop is not None and stored >= stop):
                return
            yield stored, value
            if self._environment.scan_version != scan_version:
                raise StateError(
                    "scan-ended",
                    f"a scan of store {self._name!r} was continued after a commit",
                    "read all rows of a scan before the next record",
                )

    def _sorted(
        self, rows: list[tuple[bytes, bytes]], lower: Bound | None, upper: Bound | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of one group of long keys, sorted by the full keys."""
        found = []
        for stored, sealed in rows:
            key, value = _unpack(self._unsealed(stored, sealed))
            suffix = stored[len(stored) - self._suffix :]
            if (lower is None or (key, suffix) >= lower) and (upper is None or (key, suffix) < upper):
                found.append(((key, suffix), value))
        found.sort(reverse=reverse)
        for (key, suffix), value in found:
            yield key + suffix, value

    def _unsealed(self, stored: bytes, sealed: bytes) -> bytes:
        if crc32(stored + sealed) != INTACT:
            raise self._damaged()
        return sealed[:-4]

    def _value(self, stored: bytes, value: bytes) -> bytes:
        return value if len(stored) <= self._longest_short else _unpack(value)[1]

    def _all_stored(self, keys: Sequence[bytes]) -> list[bytes]:
        if self._suffix:
            return [self._stored(key) for key in keys]
        if max(map(len, keys), default=0) <= LONG_FROM and b"\x00" not in b"".join(keys):
            return [key + TERMINATOR for key in keys]
        return [
            key + TERMINATOR if len(key) <= LONG_FROM and b"\x00" not in key else stored_key(key, b"")
            for key in keys
        ]

    def _damaged(self) -> StateError:
        return self.damaged(f"a row of store {self._name!r} does not match its checksum")

    def _unreadable(self, error: lmdb.Error) -> StateError:
        """Translate LMDB's error into a StateError: no record caused it, so none may be skipped for it."""
        state_error = translated(error, self._environment.folder)
        if state_error.code == "corrupt-state":
            state_error.hint = self._environment.damaged()
        return state_error


def _encoder(suffix: int) -> Callable[[bytes], bytes]:
    """Return the function from a key with its suffix to its LMDB key; it runs for each row, so keys without a
    suffix have a fast path."""

    def plain(key: bytes) -> bytes:
        return key + TERMINATOR if len(key) <= LONG_FROM and b"\x00" not in key else stored_key(key, b"")

    def with_suffix(key: bytes) -> bytes:
        cut = len(key) - suffix
        return stored_key(key[:cut], key[cut:])

    return with_suffix if suffix else plain


def ends_database(name: str) -> str:
    """Return the name of the database that indexes a store's rows by end time. No store can have this
    name."""
    return f"{name}:ends"


def _group(row: tuple[bytes, bytes]) -> bytes | None:
    return None if split_stored(row[0]) is not None else group_of(row[0])


def _pack(key: bytes, value: bytes) -> bytes:
    return _LENGTH.pack(len(key)) + key + value


def _unpack(packed: bytes) -> tuple[bytes, bytes]:
    end = 4 + _LENGTH.unpack_from(packed)[0]
    return packed[4:end], packed[end:]
