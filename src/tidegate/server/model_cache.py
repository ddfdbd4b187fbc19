"""The newest used values of the streams, within a budget of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Keeps values of at most so many bytes; the least recently used is evicted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: K) -> V | None:
        found = self._all.get(key)
        if found is None:
            return None
        self._all.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """A value that is larger than the budget is not kept."""
        self.drop(key)
        if size > self._most:
            return
        self._all[key] = value, size
        self.size += size
        while self.size > self._most:
            _, (_, freed) = self._all.popitem(last=False)
            self.size -= freed

    def drop(self, key: K) -> None:
        found = self._all.pop(key, None)
        if found is not None:
            self.size -= found[1]
