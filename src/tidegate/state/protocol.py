"""The protocols between the layers of a store, and the one that users' own stores implement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tidegate.state.keys import Bound

RawRow = tuple[bytes, bytes | None]
"""Key (with its suffix) and value; None deletes."""


class Token(NamedTuple):
    """Orders writes by age. A store that several hosts can reach refuses a token lower than the last one that
    it accepted: that is the write of a zombie."""

    epoch: int
    attempt: int
    offset: int


class BytesStore(Protocol):
    """Rows of bytes, sorted by key: the bottom layer of every store.

    A key ends with its suffix; a store gets the suffix's length when it is created, a user's own store from
    its context. Windows and sessions have a suffix, others have none.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows from `lower` to below `upper`, by key, then suffix. A scan ends at the next commit."""
        ...

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:
        """Apply changes that are committed in the log. After a crash the same changes may be applied
        again."""
        ...

    def clear(self) -> None:
        """Delete all rows."""
        ...


class StoreContext(Protocol):
    """What a user's own store gets from its task."""

    @property
    def folder(self) -> Path:
        """The store's own folder for this task, on this host."""
        ...

    @property
    def partition(self) -> int: ...

    @property
    def suffix(self) -> int:
        """How many bytes at the end of each key are its suffix: rows are sorted by key, then suffix."""
        ...

    def log_change(self, key: bytes, value: bytes | None) -> None:
        """Change a row: the change is logged with the next commit, and then passed to `apply`."""
        ...


class UserStore(BytesStore, Protocol):
    """A user's own store. `apply` is called after the log's commit, `flush` from time to time: what was
    applied before a flush must survive a crash after it. Right after `open`, `apply` is called without rows:
    its token lets a shared store refuse the task's previous owner. After a failure `close` may be called
    without `open`."""

    def open(self, context: StoreContext) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class RestoreListener(Protocol):
    """Notified of every restore, store by store. Offsets are those of the changelog; `end` is exclusive."""

    def on_start(self, store: str, partition: int, start: int, end: int) -> None: ...

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None: ...

    def on_end(self, store: str, partition: int, total: int) -> None: ...

    def on_suspended(self, store: str, partition: int, total: int) -> None: ...

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        """The rows on disk cannot be used, and are rebuilt from the changelog."""
        ...

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None:
        """A store without changelog does not match the committed position: it is emptied, or kept as it
        is."""
        ...


class QuietListener:
    """Ignores all notifications."""

    def on_start(self, store: str, partition: int, start: int, end: int) -> None: ...

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None: ...

    def on_end(self, store: str, partition: int, total: int) -> None: ...

    def on_suspended(self, store: str, partition: int, total: int) -> None: ...

    def on_discard(self, store: str, partition: int, reason: str) -> None: ...

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None: ...
