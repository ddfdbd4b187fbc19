"""The followers of a server by name: created when they are first used, evicted when they are not used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.server.follower import Follower, server_ends

F = TypeVar("F", bound=Follower)


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many followers a pool keeps: each has a thread and a reader."""

    soft_limit: int
    """Above this, followers that are not in use are evicted."""
    hard_limit: int
    """Never more than this: the least recently used is evicted even if it is in use."""
    unused_seconds: float = 0.0
    """One that was not used for this long counts as unused. To evict one that is used would make it read its
    topics from the start at the next call."""


class FollowerPool(Generic[F]):
    """Followers by name. Safe to use from several threads."""

    def __init__(self, size: PoolSize) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._all: dict[str, F] = {}
        self._ended = False

    def get(self, name: str, create: Callable[[], F]) -> F:
        """Return the follower of this name, created if there is none. Raises LogError `server-ends` after
        `end`."""
        evicted: list[F] = []
        with self._lock:
            if self._ended:
                raise server_ends()
            found = self._all.get(name)
            if found is None:
                found = create()
                evicted = self._evict()
                self._all[name] = found
            found.used = time.monotonic()
        for one in evicted:
            one.evict()
        for one in evicted:
            one.close()
        return found

    def by_name(self) -> dict[str, F]:
        """A copy of what it holds."""
        with self._lock:
            return dict(self._all)

    def end(self) -> None:
        """Wake all waiting calls and refuse new ones. May be called again."""
        with self._lock:
            self._ended = True
            for one in self._all.values():
                one.end()

    def close(self) -> None:
        """End, and wait for all threads. May be called again."""
        self.end()
        for one in self.by_name().values():
            one.close()

    def _evict(self) -> list[F]:
        """Take out, with the lock held, as many as must go before one more is added."""
        evicted: list[F] = []
        while len(self._all) >= self._size.soft_limit:
            name, oldest = min(self._all.items(), key=lambda item: item[1].used)
            unused = time.monotonic() - oldest.used >= self._size.unused_seconds
            if len(self._all) < self._size.hard_limit and not unused:
                break
            evicted.append(self._all.pop(name))
        return evicted
