"""Tickets for streams in browsers, which cannot send headers with them: a ticket in the URL opens one stream,
soon after it was issued, on the server that issued it. A token is never part of a URL. A ticket is bound to
the hash of a token, not to its name: it ends with the token."""

from __future__ import annotations

import secrets
import threading
import time

SECONDS = 30.0
MOST = 10_000


class Tickets:
    """The issued and unused tickets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: dict[str, tuple[str, float]] = {}

    def give(self, token: str) -> str:
        """Issue a ticket for the token with this hash."""
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
        """Use a ticket. Returns the hash of its token."""
        with self._lock:
            token, until = self._given.pop(ticket, ("", 0.0))
        return token if until >= time.monotonic() else None
