"""A user's own store: rows in memory, in a file since the last flush, guarded by the token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tidegate.errors import StateError
from tidegate.state.keys import Bound
from tidegate.state.memory import MemoryStore
from tidegate.state.protocol import RawRow, StoreContext, Token


class _Saved(msgspec.Struct, array_like=True):
    token: Token
    rows: list[tuple[bytes, bytes]]


class FileStore:
    """What `backed_by` asks for, in the simplest way that keeps its promises."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        self._file: Path | None = None
        self._token = Token(0, 0, 0)

    def open(self, context: StoreContext) -> None:
        self._file = context.folder / "rows"
        self._memory = MemoryStore(context.suffix)
        if self._file.exists():
            saved = msgspec.msgpack.decode(self._file.read_bytes(), type=_Saved)
            self._token = saved.token
            self._memory.apply(saved.rows)

    def get(self, key: bytes) -> bytes | None:
        return self._memory.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._memory.get_many(keys)

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._memory.scan(lower, upper, reverse=reverse)

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:
        if token < self._token:
            raise StateError("stale-token", f"{token} is older than {self._token}", "stop this task")
        self._token = token
        self._memory.apply(rows)

    def clear(self) -> None:
        self._token = self._token._replace(offset=0)
        self._memory.clear()

    def flush(self) -> None:
        assert self._file is not None
        draft = self._file.with_suffix(".tmp")
        rows = list(self._memory.scan(None, None))
        draft.write_bytes(msgspec.msgpack.encode(_Saved(self._token, rows)))
        draft.replace(self._file)

    def close(self) -> None:
        return None
