"""Idempotency keys: a call that is repeated because its response was lost is executed once.

Outcomes are kept for a while, by the server that executed the call. Another server executes a repeated pause
a second time, which is harmless: it is one more status.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.server.errors import RequestError

SECONDS = 600.0
MOST = 10_000


@dataclass(slots=True)
class _Done:
    asked: bytes
    until: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: Any = None


class IdempotentCalls:
    """Outcomes by the hash of the caller's token and the key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: dict[tuple[str, str], _Done] = {}

    def do(self, who: str, key: str | None, asked: bytes, call: Callable[[], Any]) -> Any:
        """The response of the call, or the one of the first time."""
        if key is None:
            return call()
        done = self._of(who, key, hashlib.sha256(asked).digest())
        with done.lock:
            if done.answer is None:
                done.answer = call()
            return done.answer

    def _of(self, who: str, key: str, asked: bytes) -> _Done:
        with self._lock:
            now = time.monotonic()
            while self._done and (len(self._done) > MOST or next(iter(self._done.values())).until < now):
                del self._done[next(iter(self._done))]
            done = self._done.setdefault((who, key), _Done(asked, now + SECONDS))
            if done.asked != asked:
                raise RequestError(
                    "idempotency-mismatch", "another call used this Idempotency-Key", "use a new one"
                )
            return done
