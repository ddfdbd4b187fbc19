"""The seams between the layers of a store, and the one that users' own stores fill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tidegate.state.keys import Bound

RawRow = tuple[bytes, bytes | None]
"""Key (with its suffix) and value; None deletes."""


class Token(NamedTuple):
    """How new a write is. A store that several hosts can reach refuses one lower than the last it took: the
    write of a zombie."""

    epoch: int
    attempt: int
    offset: int


class BytesStore(Protocol):
    """Rows of bytes in the order of their keys: what lies at the bottom of every store.

    A key carries its suffix at its end; a store gets the suffix's length when it is made, a user's own from
    its context. Windows and sessions have a suffix, others have none.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `lower` to below `upper`, by key, then suffix. A scan ends at the next commit."""
        ...

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:
        """Take changes that are committed in the log. The same changes may come again after a crash."""
        ...

    def clear(self) -> None:
        """Drop all rows."""
        ...


class StoreContext(Protocol):
    """What a user's own store is told and may call."""

    @property
    def folder(self) -> Path:
        """A folder of its own for this task, on this host."""
        ...

    @property
    def partition(self) -> int: ...

    @property
    def suffix(self) -> int:
        """How many bytes at the end of each key are its suffix: rows are ordered by key, then suffix."""
        ...

    def log_change(self, key: bytes, value: bytes | None) -> None:
        """Change a row: it goes to the changelog in the next commit, and then comes back through `apply`."""
        ...


class UserStore(BytesStore, Protocol):
    """A store of the user's own. `apply` comes after the log's commit, `flush` now and then: what was applied
    before a flush must survive a crash after it. Right after `open` comes an `apply` without rows: its token
    tells a store that is shared who owns the task now. After a failure `close` may come without `open`."""

    def open(self, context: StoreContext) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class RestoreListener(Protocol):
    """Told of every restore, store by store. Offsets are those of the changelog; `end` is excluded."""

    def on_start(self, store: str, partition: int, start: int, end: int) -> None: ...

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None: ...

    def on_end(self, store: str, partition: int, total: int) -> None: ...

    def on_suspended(self, store: str, partition: int, total: int) -> None: ...

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        """What was on disk cannot be continued, and is rebuilt from the changelog."""
        ...

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None:
        """A store without changelog is not at the committed position: it is emptied, or kept as it is."""
        ...


class QuietListener:
    """Says nothing."""

    def on_start(self, store: str, partition: int, start: int, end: int) -> None: ...

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None: ...

    def on_end(self, store: str, partition: int, total: int) -> None: ...

    def on_suspended(self, store: str, partition: int, total: int) -> None: ...

    def on_discard(self, store: str, partition: int, reason: str) -> None: ...

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None: ...
