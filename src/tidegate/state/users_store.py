"""Wrap a user's own store, so that every exception it raises becomes a StateError that names the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tidegate.errors import StateError, TidegateError
from tidegate.state.keys import Bound
from tidegate.state.protocol import RawRow, StoreContext, Token, UserStore


class GuardedStore:
    """A bytes store on top of a user's own. `unflushed` is about how many bytes a crash could lose."""

    def __init__(self, name: str, factory: Callable[[], UserStore]) -> None:
        self._name = name
        self.unflushed = 0
        with self._guard("its factory"):
            self._store = factory()

    def open(self, context: StoreContext) -> None:
        with self._guard("open"):
            self._store.open(context)

    def get(self, key: bytes) -> bytes | None:
        with self._guard("get"):
            return self._store.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._guard("get_many"):
            return self._store.get_many(keys)

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._guard("scan"):
            yield from self._store.scan(lower, upper, reverse=reverse)

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:
        listed = list(rows)
        with self._guard("apply"):
            self._store.apply(listed, token)
        self.unflushed += sum(len(key) + len(value or b"") + 16 for key, value in listed)

    def clear(self) -> None:
        with self._guard("clear"):
            self._store.clear()
        self.unflushed += 1

    def flush(self) -> None:
        with self._guard("flush"):
            self._store.flush()
        self.unflushed = 0

    def close(self) -> None:
        with self._guard("close"):
            self._store.close()

    @contextmanager
    def _guard(self, call: str) -> Iterator[None]:
        try:
            yield
        except TidegateError:
            raise
        except Exception as error:
            raise StateError(
                "users-store-failed",
                f"store {self._name!r} raised {type(error).__name__} in {call}: {error}",
                "fix the store; the task continues from its last position when it is opened again",
            ) from error
