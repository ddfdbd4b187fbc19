"""The process of a server."""

from __future__ import annotations

import gc
import signal
import socket
from urllib.parse import urlsplit

import pytest
from tests.server.conftest import served
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.serve import serve
from tidegate.server.settings import server_settings


def test_collections_of_a_server_leave_out_what_existed_at_its_start(config: Config, log: SqliteLog) -> None:
    """Else the objects of all imported modules are looked through once in a while, and all clients wait."""
    found: list[int] = []

    def started(_: str) -> None:
        found.append(gc.get_freeze_count())
        signal.raise_signal(signal.SIGTERM)

    assert log
    assert gc.get_freeze_count() == 0
    serve(config, server_settings({"port": 0}, {}), started)
    assert found[0] > 10_000
    assert gc.get_freeze_count() == 0


def test_a_connection_that_is_accepted_during_the_shutdown_is_closed(
    config: Config, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Browsers open connections ahead: uvicorn does not shut down one that it accepts meanwhile."""
    monkeypatch.setattr(H11Protocol, "shutdown", lambda _: None)
    monkeypatch.setattr("tidegate.server.serve.SHUTDOWN_SECONDS", 0)
    assert log
    with served(config) as url:
        early = socket.create_connection(("127.0.0.1", urlsplit(url).port))
        early.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert early.recv(1)
    with early:
        early.settimeout(5)
        while early.recv(1 << 16):
            pass
    gc.collect()  # warns of a socket that was left open
