"""A connection that a response can abort. A transport that is closed first sends what it still holds, so a
client that reads nothing would keep it open for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

ABORT = "tidegate.abort"
"""The name, in the state of a request, of the function that drops its connection and what it holds."""


class Connection(H11Protocol):
    """uvicorn's connection, with `ABORT`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, ABORT: transport.abort}
