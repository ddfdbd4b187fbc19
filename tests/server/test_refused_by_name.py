"""What the server refuses has a code of its own: those that no other test is about."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Client
from tests.waiting import wait_for

from tidegate.config.config import Config
from tidegate.errors import TidegateError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.live_replica import LiveReplica
from tidegate.server.serve import prepared
from tidegate.server.settings import server_settings


def test_a_head_that_is_too_long_is_refused(client: Client) -> None:
    place = client.base_url
    lines = b"".join(b"X-%d: %s\r\n" % (number, bytes(1000).hex().encode()) for number in range(131))
    with closing(socket.create_connection((place.host, place.port), timeout=20)) as wire:
        wire.sendall(b"GET /topics HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lines + b"\r\n")
        received = b""
        while part := wire.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 431 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"] == "head-too-large"


def test_a_path_of_bytes_that_are_not_encoded_is_refused(config: Config, log: SqliteLog) -> None:
    """Our HTTP server refuses it already; another one in front of the same app may not."""
    assert log
    sent: list[Any] = []

    async def ask(app: Any) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        path = "/topics/\u00e9"
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
        }
        await app({**scope, "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1)}, receive, send)

    with prepared(config, server_settings({"port": 0}, {}), lambda _: None) as server:
        asyncio.run(ask(server.config.app))
    assert sent[0]["status"] == 400
    assert json.loads(sent[1]["body"])["error"]["code"] == "bad-path"


class BrokenLog(SqliteLog):
    """Fails as a bug would."""

    def describe(self, name: str) -> Any:
        raise RuntimeError(f"a bug in {name}")


def test_a_replica_that_fails_by_a_bug_reports_it_and_its_thread_goes_on(tmp_path: Path) -> None:
    with closing(BrokenLog()) as log:
        following = LiveReplica(log, "t", lambda _: [], 0, tmp_path / "replica", threading.Semaphore(1))
        try:
            wait_for(lambda: following.trouble is not None)
            with pytest.raises(TidegateError, match="a bug in t") as caught, following.snapshot({}, 0.1):
                pass
            assert caught.value.code == "replica-failed"
        finally:
            following.close()
