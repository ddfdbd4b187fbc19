"""The limit of open streams, and the threads that read for them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tidegate.server.errors import RequestError


class Streams:
    """The streams of one server."""

    def __init__(self, most: int, per_client: int) -> None:
        self.ending = threading.Event()
        """Set when the server is about to stop: each stream then ends by itself."""
        self.readers = ThreadPoolExecutor(most, thread_name_prefix="tidegate-stream")
        self._most = most
        self._per_client = per_client
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._open.total()

    @contextmanager
    def reserve(self, client: str) -> Iterator[None]:
        """Count a stream while it is open; raises RequestError `too-many-streams`."""
        with self._lock:
            if self._open.total() >= self._most or self._open[client] >= self._per_client:
                raise RequestError(
                    "too-many-streams", "too many streams are open", "close some", retryable=True
                )
            self._open[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[client] -= 1
                if not self._open[client]:
                    del self._open[client]

    def close(self) -> None:
        self.ending.set()
        self.readers.shutdown()
