"""Tickets for streams in browsers, which cannot send headers with them: a ticket in the URL opens one stream,
within seconds and on the server that issued it. A token is never part of a URL. A ticket is bound to the hash
of a token, not to its name: it becomes invalid with the token. One that was issued for a
grant permits what the grant permits."""

from __future__ import annotations

import secrets
import threading
import time
from typing import NamedTuple

from tidegate.server.grants import Grant

SECONDS = 30.0
MOST = 10_000


class Ticket(NamedTuple):
    """What a ticket stands for."""

    token: str
    """The hash of the token."""
    grant: Grant | None


class Tickets:
    """The issued and unused tickets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._issued: dict[str, tuple[Ticket, float]] = {}

    def issue(self, token: str, grant: Grant | None = None) -> str:
        """Issue a ticket for the token with this hash, or for a grant that it issued."""
        with self._lock:
            now = time.monotonic()
            for old in [one for one, (_, until) in self._issued.items() if until < now]:
                del self._issued[old]
            if len(self._issued) >= MOST:
                del self._issued[next(iter(self._issued))]
            ticket = secrets.token_urlsafe(24)
            self._issued[ticket] = (Ticket(token, grant), now + SECONDS)
            return ticket

    def redeem(self, ticket: str) -> Ticket | None:
        """Use up a ticket. Returns what it stands for, or None if it is unknown, used or too old."""
        with self._lock:
            found, until = self._issued.pop(ticket, (None, 0.0))
        return found if until >= time.monotonic() else None
