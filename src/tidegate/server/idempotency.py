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
class _Outcome:
    request: bytes
    """The hash of the request."""
    until: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    response: Any = None


class IdempotentCalls:
    """Outcomes by the hash of the caller's token and the key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: dict[tuple[str, str], _Outcome] = {}

    def do(self, who: str, key: str | None, request: bytes, call: Callable[[], Any]) -> Any:
        """Execute the call, unless this key was used before. Returns the response of the first time."""
        if key is None:
            return call()
        outcome = self._of(who, key, hashlib.sha256(request).digest())
        with outcome.lock:
            if outcome.response is None:
                outcome.response = call()
            return outcome.response

    def _of(self, who: str, key: str, request: bytes) -> _Outcome:
        with self._lock:
            now = time.monotonic()
            while self._outcomes and (
                len(self._outcomes) > MOST or next(iter(self._outcomes.values())).until < now
            ):
                del self._outcomes[next(iter(self._outcomes))]
            outcome = self._outcomes.setdefault((who, key), _Outcome(request, now + SECONDS))
            if outcome.request != request:
                raise RequestError(
                    "idempotency-mismatch",
                    "this Idempotency-Key was used for another request",
                    "use a new key",
                )
            return outcome
