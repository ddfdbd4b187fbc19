"""Tickets: what a browser puts into the URL of a stream, where it can send no header. Each opens one stream,
soon after it was given, on the server that gave it; a token is never in a URL. A ticket belongs to the
hash of a token, not to its name: it ends with the token."""

from __future__ import annotations

import secrets
import threading
import time

SECONDS = 30.0
MOST = 10_000


class Tickets:
    """Those that were given and not used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: dict[str, tuple[str, float]] = {}

    def give(self, token: str) -> str:
        """One for the token of this hash."""
        with self._lock:
            now = time.monotonic()
            for old in [one for one, (_, until) in self._given.items() if until < now]:
                del self._given[old]
            if len(self._given) >= MOST:
                del self._given[next(iter(self._given))]
            ticket = secrets.token_urlsafe(24)
            self._given[ticket] = (token, now + SECONDS)
            return ticket

    def take(self, ticket: str) -> str | None:
        """The hash of the token that it was given for; used up from now on."""
        with self._lock:
            token, until = self._given.pop(ticket, ("", 0.0))
        return token if until >= time.monotonic() else None
