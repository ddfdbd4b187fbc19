"""The open streams of dashboards, by their ids: a tab changes what it follows by a call of its own, since a
browser has only six connections to a server."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tidegate.server.errors import RequestError

if TYPE_CHECKING:
    from tidegate.server.tab import Tab


class Tabs:
    """Used by the event loop only."""

    def __init__(self) -> None:
        self._open: dict[str, Tab] = {}

    def add(self, tab: Tab) -> str:
        """Add a tab and return its id, which is hard to guess."""
        name = secrets.token_urlsafe(12)
        self._open[name] = tab
        return name

    def remove(self, name: str) -> None:
        self._open.pop(name, None)

    def of(self, name: str, token: str) -> Tab:
        """Return the tab of this id that the same token opened. Raises RequestError `no-such-stream`."""
        found = self._open.get(name)
        if found is None or found.token != token:
            raise RequestError(
                "no-such-stream",
                "this server has no such stream open",
                "open one with GET /summary/live, and use the id of its first line",
            )
        return found
